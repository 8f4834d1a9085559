sleep 10 && flux proxy ${fluxsocket} flux jobs -a
