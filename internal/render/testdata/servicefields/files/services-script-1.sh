cat > /tmp/custom-entrypoint.sh <<END
#!/bin/sh
exec thumbnails --watch /srv
END
chmod +x /tmp/custom-entrypoint.sh
