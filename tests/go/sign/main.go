// Sign makes a TEST key from a fixed seed with Go's note package, signs standard input with it, and prints the signing
// key, the verifier key and the note.
//
// Usage: sign NAME < TEXT
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/mod/sumdb/note"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sign NAME < TEXT")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "sign:", err)
		os.Exit(1)
	}
}

func run(name string) error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	// A TEST key: its seed is 32 times the byte 7.
	signing, verifier, err := note.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{7}, 64)), name)
	if err != nil {
		return err
	}
	signer, err := note.NewSigner(signing)
	if err != nil {
		return err
	}
	signed, err := note.Sign(&note.Note{Text: string(text)}, signer)
	if err != nil {
		return err
	}
	fmt.Printf("%s\n%s\n%s", signing, verifier, signed)
	return nil
}
