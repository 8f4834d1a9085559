mkdir -p /results
