install-tools python3
