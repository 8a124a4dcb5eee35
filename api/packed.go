package api

import (
	"bytes"
	"io"
	"slices"

	"github.com/klauspost/compress/s2"
)

// packed is a text that is held compressed. The jobs of a list repeat most of each other's text, so that it takes a
// tenth of the memory.
type packed struct {
	pieces [][]byte
	size   int // bytes of all pieces
}

// add appends text.
func (p *packed) add(text []byte) {
	for piece := range slices.Chunk(text, pieceSize) {
		small := bytes.Clone(s2.Encode(nil, piece))
		p.pieces = append(p.pieces, small)
		p.size += len(small)
	}
}

// writeTo writes the text. It holds a piece of it at a time.
func (p *packed) writeTo(w io.Writer) error {
	buffer := make([]byte, pieceSize)
	for _, piece := range p.pieces {
		text, err := s2.Decode(buffer, piece)
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}
