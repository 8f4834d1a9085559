track --listen 0.0.0.0:9000 --database localhost:5432
