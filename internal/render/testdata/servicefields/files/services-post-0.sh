rm -rf /srv/viewer/cache
