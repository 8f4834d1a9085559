upload --from /exchange
