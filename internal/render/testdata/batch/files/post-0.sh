ls /results
