mkdir -p /var/track
