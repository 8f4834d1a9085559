view --port 7000
