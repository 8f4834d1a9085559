cat > /tmp/custom-entrypoint.sh <<END
#!/bin/bash
ask http://web && echo "task \${FLUX_TASK_RANK} of $(hostname)"
END
chmod +x /tmp/custom-entrypoint.sh
