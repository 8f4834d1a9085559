/bin/bash /tmp/custom-entrypoint.sh
