package curve

import "fmt"

// z85Alphabet is the alphabet of Z85, in the order of the digits' values (ZeroMQ RFC 32).
const z85Alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

// z85Encode writes each 4 bytes, big-endian, as 5 digits to the base of 85. It returns an error when the
// length of data is no multiple of 4.
func z85Encode(data []byte) (string, error) {
	if len(data)%4 != 0 {
		return "", fmt.Errorf("z85: %d bytes are no multiple of 4", len(data))
	}
	text := make([]byte, 0, len(data)/4*5)
	for ; len(data) > 0; data = data[4:] {
		value := uint32(data[0])<<24 | uint32(data[1])<<16 | uint32(data[2])<<8 | uint32(data[3])
		for _, place := range []uint32{85 * 85 * 85 * 85, 85 * 85 * 85, 85 * 85, 85, 1} {
			text = append(text, z85Alphabet[value/place%85])
		}
	}
	return string(text), nil
}

// z85Decode is the inverse of z85Encode. Its errors never quote the text, which may be a secret key.
func z85Decode(text string) ([]byte, error) {
	if len(text)%5 != 0 {
		return nil, fmt.Errorf("z85: %d characters are no multiple of 5", len(text))
	}
	data := make([]byte, 0, len(text)/5*4)
	for start := 0; start < len(text); start += 5 {
		var value uint64
		for i := start; i < start+5; i++ {
			digit := z85Digits[text[i]]
			if digit < 0 {
				return nil, fmt.Errorf("z85: character %d is not of the alphabet", i)
			}
			value = value*85 + uint64(digit)
		}
		if value > 1<<32-1 {
			return nil, fmt.Errorf("z85: characters %d to %d are beyond 32 bits", start, start+4)
		}
		data = append(data, byte(value>>24), byte(value>>16), byte(value>>8), byte(value))
	}
	return data, nil
}

// z85Digits is the value of each digit by its character, -1 where there is none.
var z85Digits = func() (digits [256]int) {
	for i := range digits {
		digits[i] = -1
	}
	for value, character := range []byte(z85Alphabet) {
		digits[character] = value
	}
	return digits
}()
