mkdir -p /srv/logs
