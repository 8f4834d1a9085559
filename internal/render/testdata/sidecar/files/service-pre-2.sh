install-tools jq
