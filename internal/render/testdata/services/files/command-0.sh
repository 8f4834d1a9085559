program=(
  campaign --tracker campaign-services.campaign-net:9000
)
