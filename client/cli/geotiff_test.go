package cli

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

// A file of a platform must not end the program, whatever number of bands it names.
func TestReadGeoTIFF_RefusesImpossibleNumbersOfBands(t *testing.T) {
	for _, bands := range []float64{-1, 0, math.NaN(), 1e6, math.MaxFloat64} {
		file := []byte("II*\x00\x08\x00\x00\x00\x01\x00")
		for _, v := range []any{uint16(tagBands), uint16(12), uint32(1), uint32(26), uint32(0), bands} {
			file, _ = binary.Append(file, binary.LittleEndian, v) // of a type that it knows
		}
		if _, err := readGeoTIFF(bytes.NewReader(file)); err != errNoGeoTIFF {
			t.Errorf("%v bands: %v", bands, err)
		}
	}
}
