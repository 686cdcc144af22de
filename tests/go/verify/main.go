// Verify checks a capgate registry with Go's own note and tlog packages, which share no code with capgate.
//
// Usage:
//
//	verify REGISTRY_DIR REGISTRY_VKEY PUBLISHER_VKEY
//	verify -proof FILE
//	verify -consistency FILE
//	verify -history REGISTRY_DIR CHECKPOINTS_DIR INCLUSIONS REGISTRY_VKEY…
//
// The first form verifies snapshot/latest.note and log/checkpoint with the registry's key, that both name the same log,
// each entry's signature with the publisher's key, each entry's inclusion in the checkpoint's root, and that each
// shorter log is a prefix. FILE holds one value a line: for -proof the tree size, the root, the index, the record and
// the proof's hashes; for -consistency the old size, the old root, the new size, the new root and the proof's hashes.
// Sizes and indices are decimal, all else is base64.
//
// The last form is described in history.go.
//
// It prints a line for each thing verified and their number, and exits with 1 and the reason at the first that fails.
//
// Build with Debian's golang-go and golang-golang-x-mod-dev:
//
//	GO111MODULE=off GOPATH=/usr/share/gocode go build
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	height = 8
	width  = 1 << height
)

var verified int

func main() {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "-proof":
		err = inclusionFile(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "-consistency":
		err = consistencyFile(os.Args[2])
	case len(os.Args) > 5 && os.Args[1] == "-history":
		var inclusions int64
		if inclusions, err = parseSize(os.Args[4]); err == nil {
			err = history(os.Args[2], os.Args[3], int(inclusions), os.Args[5:])
		}
	case len(os.Args) == 4 && !strings.HasPrefix(os.Args[1], "-"):
		err = registry(os.Args[1], os.Args[2], os.Args[3])
	default:
		fmt.Fprintln(os.Stderr, "usage: verify REGISTRY_DIR REGISTRY_VKEY PUBLISHER_VKEY | -proof FILE | -consistency FILE | -history …")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(1)
	}
	fmt.Printf("verified %d things\n", verified)
}

func ok(format string, args ...any) {
	verified++
	fmt.Printf("ok: "+format+"\n", args...)
}

func registry(dir, registryKey, publisherKey string) error {
	origin, tree, err := commitPoint(dir, registryKey)
	if err != nil {
		return err
	}
	publisher, err := note.NewVerifier(publisherKey)
	if err != nil {
		return fmt.Errorf("publisher key: %w", err)
	}
	entries, err := readEntries(dir, tree.N)
	if err != nil {
		return err
	}
	for i, entry := range entries {
		opened, err := note.Open(entry, note.VerifierList(publisher))
		if err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		kind, entryOrigin, _, err := domain(opened.Text)
		if err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		if kind != "profile" && kind != "revocation" || entryOrigin != origin {
			return fmt.Errorf("entry %d is a %q of %q", i, kind, entryOrigin)
		}
		ok("entry %d is a %s signed by %s", i, kind, publisher.Name())
	}
	return proofs(dir, tree, entries)
}

// commitPoint verifies latest.note and the checkpoint and returns the log that both name.
func commitPoint(dir, key string) (origin string, tree tlog.Tree, err error) {
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return "", tree, fmt.Errorf("registry key: %w", err)
	}
	latest, err := open(dir, "snapshot/latest.note", verifier)
	if err != nil {
		return "", tree, err
	}
	kind, origin, body, err := domain(latest)
	if err != nil || kind != "latest" {
		return "", tree, fmt.Errorf("snapshot/latest.note is no latest: %q %v", kind, err)
	}
	values := topLevel(body)
	for _, name := range []string{"size", "root", "log_size", "log_root"} {
		if values[name] == "" {
			return "", tree, fmt.Errorf("snapshot/latest.note has no %s", name)
		}
	}
	checkpoint, err := open(dir, "log/checkpoint", verifier)
	if err != nil {
		return "", tree, err
	}
	logOrigin, tree, err := parseCheckpoint(checkpoint)
	if err != nil {
		return "", tree, fmt.Errorf("log/checkpoint: %w", err)
	}
	if logOrigin != origin {
		return "", tree, fmt.Errorf("the checkpoint is of %q, latest.note of %q", logOrigin, origin)
	}
	if values["log_size"] != strconv.FormatInt(tree.N, 10) || values["log_root"] != hex.EncodeToString(tree.Hash[:]) {
		return "", tree, fmt.Errorf("latest.note names the log %s %s, the checkpoint %d %x",
			values["log_size"], values["log_root"], tree.N, tree.Hash[:])
	}
	ok("latest.note and checkpoint name the same log of %d entries, root %x", tree.N, tree.Hash[:])
	return origin, tree, nil
}

func open(dir, path string, verifier note.Verifier) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
	if err != nil {
		return "", err
	}
	opened, err := note.Open(data, note.VerifierList(verifier))
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	ok("%s is signed by %s", path, verifier.Name())
	return opened.Text, nil
}

// domain splits "# capgate <kind> v1 <origin>" from the body.
func domain(text string) (kind, origin, body string, err error) {
	line, body, _ := strings.Cut(text, "\n")
	words := strings.Split(line, " ")
	if len(words) != 5 || words[0] != "#" || words[1] != "capgate" || words[3] != "v1" {
		return "", "", "", fmt.Errorf("no capgate domain in %q", line)
	}
	return words[2], words[4], body, nil
}

// topLevel reads the plain `key = value` lines above the first table of a TOML text.
func topLevel(body string) map[string]string {
	values := make(map[string]string)
	for _, line := range strings.Split(body, "\n") {
		if strings.HasPrefix(line, "[") {
			break
		}
		if key, value, found := strings.Cut(line, "="); found {
			values[strings.TrimSpace(key)] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return values
}

// parseCheckpoint does what tlog.ParseTree does, which accepts only the header of go.sum's own log.
func parseCheckpoint(text string) (origin string, tree tlog.Tree, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[3] != "" {
		return "", tree, errors.New("not three lines")
	}
	if tree.N, err = parseSize(lines[1]); err != nil {
		return "", tree, err
	}
	tree.Hash, err = tlog.ParseHash(lines[2])
	return lines[0], tree, err
}

func parseSize(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0, fmt.Errorf("malformed number %q", text)
	}
	return n, nil
}

// proofs builds the tree anew from the entries and checks inclusion and prefixes against the published tiles.
func proofs(dir string, tree tlog.Tree, entries [][]byte) error {
	if tree.N == 0 {
		// x/mod 0.7 has zeroes for the empty tree; RFC 6962 has SHA-256 of nothing.
		if tree.Hash != sha256.Sum256(nil) {
			return errors.New("the empty log has another root than the empty tree")
		}
		ok("the empty log has the root of the empty tree")
		return nil
	}
	tiles := tlog.TileHashReader(tree, &tileReader{dir: dir, cache: map[string][]byte{}})
	var stored []tlog.Hash
	own := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		hashes := make([]tlog.Hash, 0, len(indexes))
		for _, i := range indexes {
			hashes = append(hashes, stored[i])
		}
		return hashes, nil
	})
	for i, entry := range entries {
		index := int64(i)
		proof, err := tlog.ProveRecord(tree.N, index, tiles)
		if err == nil {
			err = tlog.CheckRecord(proof, tree.N, tree.Hash, index, tlog.RecordHash(entry))
		}
		if err != nil {
			return fmt.Errorf("inclusion of entry %d: %w", i, err)
		}
		ok("entry %d is in the log", i)
		added, err := tlog.StoredHashes(index, entry, own)
		if err != nil {
			return err
		}
		stored = append(stored, added...)
		if err := prefix(tree, index+1, own, tiles); err != nil {
			return fmt.Errorf("prefix of %d entries: %w", i+1, err)
		}
		ok("the first %d entries are a prefix of the log", i+1)
	}
	whole, err := tlog.TreeHash(tree.N, own)
	if err != nil {
		return err
	}
	if whole != tree.Hash {
		return errors.New("the entries give another root than the checkpoint")
	}
	ok("the entries give the checkpoint's root")
	return nil
}

// prefix proves with the tiles that the tree of n leaves, whose root comes from the entries, begins the log.
func prefix(tree tlog.Tree, n int64, own, tiles tlog.HashReader) error {
	root, err := tlog.TreeHash(n, own)
	if err != nil {
		return err
	}
	proof, err := tlog.ProveTree(tree.N, n, tiles)
	if err != nil {
		return err
	}
	return tlog.CheckTree(proof, tree.N, tree.Hash, n, root)
}

// tileReader reads C2SP paths: Go's own have the tile height in them and other names for partial tiles' folders.
type tileReader struct {
	dir   string
	cache map[string][]byte
}

func (r *tileReader) Height() int { return height }

func (r *tileReader) SaveTiles([]tlog.Tile, [][]byte) {}

func (r *tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	contents := make([][]byte, 0, len(tiles))
	for _, t := range tiles {
		path := tilePath(strconv.Itoa(t.L), t.N, t.W)
		data, cached := r.cache[path]
		if !cached {
			read, full, err := readTile(r.dir, strconv.Itoa(t.L), t.N, t.W)
			if err != nil {
				return nil, err
			}
			if full && len(read) != width*tlog.HashSize || !full && len(read) != t.W*tlog.HashSize {
				return nil, fmt.Errorf("%s has %d bytes", path, len(read))
			}
			data = read[:t.W*tlog.HashSize]
			r.cache[path] = data
		}
		contents = append(contents, data)
	}
	return contents, nil
}

// tilePath names a tile as C2SP tlog-tiles does.
func tilePath(row string, n int64, w int) string {
	position := fmt.Sprintf("%03d", n%1000)
	for n >= 1000 {
		n /= 1000
		position = fmt.Sprintf("x%03d/%s", n%1000, position)
	}
	path := "log/tile/" + row + "/" + position
	if w < width {
		path += ".p/" + strconv.Itoa(w)
	}
	return path
}

// readTile reads a tile, or the full one where the partial one is gone, and tells which.
func readTile(dir, row string, n int64, w int) (data []byte, full bool, err error) {
	data, err = os.ReadFile(filepath.Join(dir, filepath.FromSlash(tilePath(row, n, w))))
	if errors.Is(err, fs.ErrNotExist) && w < width {
		if data, fullErr := os.ReadFile(filepath.Join(dir, filepath.FromSlash(tilePath(row, n, width)))); fullErr == nil {
			return data, true, nil
		}
	}
	return data, w == width, err
}

func readEntries(dir string, size int64) ([][]byte, error) {
	var entries [][]byte
	for n := int64(0); n*width < size; n++ {
		w := width
		if rest := size - n*width; rest < width {
			w = int(rest)
		}
		data, full, err := readTile(dir, "entries", n, w)
		if err != nil {
			return nil, err
		}
		count := 0
		for len(data) > 0 {
			if len(data) < 2 || len(data) < 2+int(binary.BigEndian.Uint16(data)) {
				return nil, fmt.Errorf("bundle %d is cut off", n)
			}
			end := 2 + int(binary.BigEndian.Uint16(data))
			if count < w {
				entries = append(entries, data[2:end])
			}
			data = data[end:]
			count++
		}
		if full && count != width || !full && count != w {
			return nil, fmt.Errorf("bundle %d holds %d entries", n, count)
		}
	}
	return entries, nil
}

func inclusionFile(path string) error {
	lines, err := readLines(path, 4)
	if err != nil {
		return err
	}
	size, err1 := parseSize(lines[0])
	root, err2 := tlog.ParseHash(lines[1])
	index, err3 := parseSize(lines[2])
	record, err4 := base64.StdEncoding.Strict().DecodeString(lines[3])
	proof, err5 := parseHashes(lines[4:])
	if err := first(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	if err := tlog.CheckRecord(tlog.RecordProof(proof), size, root, index, tlog.RecordHash(record)); err != nil {
		return err
	}
	ok("record %d is in the tree of %d", index, size)
	return nil
}

func consistencyFile(path string) error {
	lines, err := readLines(path, 4)
	if err != nil {
		return err
	}
	oldSize, err1 := parseSize(lines[0])
	oldRoot, err2 := tlog.ParseHash(lines[1])
	newSize, err3 := parseSize(lines[2])
	newRoot, err4 := tlog.ParseHash(lines[3])
	proof, err5 := parseHashes(lines[4:])
	if err := first(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	if err := tlog.CheckTree(tlog.TreeProof(proof), newSize, newRoot, oldSize, oldRoot); err != nil {
		return err
	}
	ok("the tree of %d is a prefix of that of %d", oldSize, newSize)
	return nil
}

func readLines(path string, least int) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(bytes.TrimSuffix(data, []byte("\n"))), "\n")
	if len(lines) < least {
		return nil, fmt.Errorf("%s has %d lines, at least %d are needed", path, len(lines), least)
	}
	return lines, nil
}

func parseHashes(lines []string) ([]tlog.Hash, error) {
	var hashes []tlog.Hash
	for _, line := range lines {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return nil, err
		}
		hashes = append(hashes, hash)
	}
	return hashes, nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
