dnf install -y python3
