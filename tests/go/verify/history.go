package main

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"sort"
	"strconv"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// history verifies every checkpoint that a registry ever signed, kept in a folder under their numbers, with the registry
// keys that it ever had: each is signed, each continues the one before it by a proof from the published tiles, the last
// one is the published one, and randomly chosen entries are in it.
func history(dir, kept string, inclusions int, keys []string) error {
	var verifiers []note.Verifier
	for _, key := range keys {
		verifier, err := note.NewVerifier(key)
		if err != nil {
			return fmt.Errorf("key %s: %w", key, err)
		}
		verifiers = append(verifiers, verifier)
	}
	names, err := os.ReadDir(kept)
	if err != nil {
		return err
	}
	sort.Slice(names, func(i, j int) bool {
		a, _ := strconv.Atoi(names[i].Name())
		b, _ := strconv.Atoi(names[j].Name())
		return a < b
	})
	var trees []tlog.Tree
	signers := map[uint32]bool{}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(kept, name.Name()))
		if err != nil {
			return err
		}
		// Keys of one name and other bits are told apart by their hashes.
		opened, err := note.Open(data, note.VerifierList(verifiers...))
		if err != nil {
			return fmt.Errorf("checkpoint %s: %w", name.Name(), err)
		}
		for _, signature := range opened.Sigs {
			signers[signature.Hash] = true
		}
		_, tree, err := parseCheckpoint(opened.Text)
		if err != nil {
			return fmt.Errorf("checkpoint %s: %w", name.Name(), err)
		}
		trees = append(trees, tree)
		ok("checkpoint %s of %d entries is signed by %s", name.Name(), tree.N, opened.Sigs[0].Name)
	}
	if len(trees) == 0 {
		return errors.New("no checkpoint was kept")
	}
	if len(signers) != len(verifiers) {
		return fmt.Errorf("%d of %d keys ever signed", len(signers), len(verifiers))
	}
	last := trees[len(trees)-1]
	tiles := tlog.TileHashReader(last, &tileReader{dir: dir, cache: map[string][]byte{}})
	for i := 1; i < len(trees); i++ {
		if err := continues(trees[i-1], trees[i], tiles); err != nil {
			return fmt.Errorf("checkpoint %d: %w", i, err)
		}
		ok("%d entries continue %d", trees[i].N, trees[i-1].N)
	}
	entries, err := readEntries(dir, last.N)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewSource(1))
	for i := 0; i < inclusions; i++ {
		index := random.Int63n(last.N)
		proof, err := tlog.ProveRecord(last.N, index, tiles)
		if err == nil {
			err = tlog.CheckRecord(proof, last.N, last.Hash, index, tlog.RecordHash(entries[index]))
		}
		if err != nil {
			return fmt.Errorf("inclusion of entry %d: %w", index, err)
		}
		ok("entry %d is in the log", index)
	}
	return nil
}

// continues proves with the tiles of the newest log that one tree begins another.
func continues(old, new tlog.Tree, tiles tlog.HashReader) error {
	if old.N == 0 {
		return nil
	}
	if old.N == new.N {
		if old.Hash != new.Hash {
			return errors.New("one size has two roots")
		}
		return nil
	}
	proof, err := tlog.ProveTree(new.N, old.N, tiles)
	if err != nil {
		return err
	}
	return tlog.CheckTree(proof, new.N, new.Hash, old.N, old.Hash)
}
