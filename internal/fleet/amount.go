package fleet

import (
	"math"
	"strconv"
)

// Cores writes millicores for people, as cores with as many decimals as they take, three at most: "452", "404.35".
func Cores(milli int64) string { return decimal(float64(milli) / 1000) }

// Bytes writes bytes for people: whole Mi below one Gi, else Gi with two decimals at most. Round, math.Floor or
// math.Ceil, says what becomes of the rest.
func Bytes(n int64, round func(float64) float64) string {
	const mebi, gibi = 1 << 20, 1 << 30
	if m := round(float64(n) / mebi); math.Abs(m) < gibi/mebi {
		return decimal(m) + "Mi"
	}
	return decimal(round(float64(n)*100/gibi)/100) + "Gi"
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
