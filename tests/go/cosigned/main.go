// Cosigned checks and makes cosignatures of checkpoints (C2SP tlog-cosignature, Ed25519) with Go's own note package, which
// shares no code with capgate and knows nothing of cosignatures: the few lines that they need are here.
//
// Usage:
//
//	cosigned CHECKPOINT LOG_VKEY WITNESS_VKEY...
//	cosigned -sign CHECKPOINT NAME SEED_HEX SECONDS
//
// The first form demands a valid signature by the log and by every witness, and prints the time of each cosignature. The
// second prints a cosignature as a signature line.
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

const algorithm = 4

type witness struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

func (w witness) Name() string    { return w.name }
func (w witness) KeyHash() uint32 { return w.hash }

func (w witness) Verify(text, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	return ed25519.Verify(w.key, message(binary.BigEndian.Uint64(sig), text), sig[8:])
}

func message(seconds uint64, text []byte) []byte {
	return append([]byte(fmt.Sprintf("cosignature/v1\ntime %d\n", seconds)), text...)
}

func keyHash(name string, key []byte) uint32 {
	digest := sha256.Sum256(bytes.Join([][]byte{[]byte(name), {'\n', algorithm}, key}, nil))
	return binary.BigEndian.Uint32(digest[:])
}

func parseWitness(vkey string) (witness, error) {
	parts := strings.SplitN(vkey, "+", 3)
	if len(parts) != 3 {
		return witness{}, errors.New("not NAME+HASH+KEY")
	}
	key, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(key) != 33 || key[0] != algorithm {
		return witness{}, errors.New("not the key of a witness")
	}
	w := witness{parts[0], keyHash(parts[0], key[1:]), key[1:]}
	if fmt.Sprintf("%08x", w.hash) != parts[1] {
		return witness{}, errors.New("another hash")
	}
	return w, nil
}

func check(path, log string, witnesses []string) error {
	msg, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	verifier, err := note.NewVerifier(log)
	if err != nil {
		return err
	}
	all := []note.Verifier{verifier}
	for _, vkey := range witnesses {
		w, err := parseWitness(vkey)
		if err != nil {
			return fmt.Errorf("%s: %v", vkey, err)
		}
		all = append(all, w)
	}
	opened, err := note.Open(msg, note.VerifierList(all...))
	if err != nil {
		return err
	}
	if len(opened.Sigs) != len(all) {
		return fmt.Errorf("%d of %d signed", len(opened.Sigs), len(all))
	}
	for _, sig := range opened.Sigs[1:] {
		raw, err := base64.StdEncoding.DecodeString(sig.Base64)
		if err != nil {
			return err
		}
		fmt.Printf("%s %d\n", sig.Name, binary.BigEndian.Uint64(raw[4:]))
	}
	return nil
}

func sign(path, name, seed, seconds string) error {
	msg, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := msg[:bytes.LastIndex(msg, []byte("\n\n"))+1]
	raw, err := hex.DecodeString(seed)
	if err != nil || len(raw) != ed25519.SeedSize {
		return errors.New("no seed")
	}
	time, err := strconv.ParseUint(seconds, 10, 63)
	if err != nil {
		return err
	}
	key := ed25519.NewKeyFromSeed(raw)
	sig := binary.BigEndian.AppendUint32(nil, keyHash(name, key.Public().(ed25519.PublicKey)))
	sig = binary.BigEndian.AppendUint64(sig, time)
	sig = append(sig, ed25519.Sign(key, message(time, text))...)
	fmt.Printf("\u2014 %s %s\n", name, base64.StdEncoding.EncodeToString(sig))
	return nil
}

func main() {
	var err error
	switch {
	case len(os.Args) == 6 && os.Args[1] == "-sign":
		err = sign(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	case len(os.Args) >= 4:
		err = check(os.Args[1], os.Args[2], os.Args[3:])
	default:
		err = errors.New("usage: cosigned CHECKPOINT LOG_VKEY WITNESS_VKEY... | -sign CHECKPOINT NAME SEED_HEX SECONDS")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
