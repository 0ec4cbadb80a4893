package environ

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/whole"
	"github.com/gomoe/gomoe/jaccl/job/hostfile"
)

// minSecret is the smallest length of a secret in bytes.
const minSecret = 16

// Key returns the secret proving that the job's processes belong together. It is the
// value of GOMOE_SECRET, or else the contents of the file named by GOMOE_SECRET_FILE, or
// else of this user's file, gomoe/secret in dir. An empty dir means the folder of
// os.UserConfigDir.
//
// If this user's file does not exist and the ranks meet at this machine's loopback
// address, Key makes the file. If they meet at another address, the missing file is an
// error that explains how to make one and copy it. A file that others than its owner can
// read is refused.
func (j Job) Key(dir string) (string, error) {
	if j.Secret != "" {
		return long(j.Secret, gomoeSecret)
	}
	if j.SecretFile != "" {
		return readSecret(j.SecretFile)
	}
	if dir == "" {
		config, err := os.UserConfigDir()
		if err != nil {
			return "", fmt.Errorf("environ: no secret: set %s or %s: %w", gomoeSecret, gomoeSecretFile, err)
		}
		dir = config
	}
	path := filepath.Join(dir, "gomoe", "secret")
	key, err := readSecret(path)
	if !errors.Is(err, os.ErrNotExist) {
		return key, err
	}
	if !loopback(j.Coordinator) {
		return "", fmt.Errorf("environ: no secret: ranks meet at %s, another machine or one that others reach, and prove to each other that they belong together; "+
			"make one and copy it to all of them, readable by you only: mkdir -p %s && (umask 077 && openssl rand -hex 32 > %s) && scp -p %s HOST:%s; or set %s or %s",
			j.Coordinator, filepath.Dir(path), path, path, path, gomoeSecret, gomoeSecretFile)
	}
	if err := makeSecret(path); err != nil {
		return "", err
	}
	return readSecret(path) // another rank may have been first
}

// NewSecret returns a random secret.
func NewSecret() string {
	b := make([]byte, 32)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// loopback reports whether address, host:port, is on this machine and out of reach of every
// other machine.
func loopback(address string) bool {
	host, _, err := hostfile.SplitAddress(address)
	return err == nil && hostfile.IsLocal(host)
}

func long(s, from string) (string, error) {
	if s = strings.TrimSpace(s); len(s) < minSecret {
		return "", fmt.Errorf("environ: %s: a secret of %d bytes, want at least %d, such as from openssl rand -hex 32", from, len(s), minSecret)
	}
	return s, nil
}

// readSecret reads a file with a secret. It checks the permissions of the opened file,
// not of the path, so that the file cannot be exchanged between the check and the
// reading. It also checks the folders above it, in which others could replace the file.
func readSecret(path string) (string, error) {
	f, info, err := infile.Open(path)
	if err != nil {
		return "", fmt.Errorf("environ: secret: %w", err)
	}
	defer f.Close()
	// Windows has no such bits; there, only the user can read the user's folder.
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("environ: secret: others may read %s (%v); make a new one, or if nobody has, chmod 600 %s", path, info.Mode().Perm(), path)
	}
	if err := owned(path, info); err != nil {
		return "", fmt.Errorf("environ: secret: %w", err)
	}
	if err := sheltered(path); err != nil {
		return "", fmt.Errorf("environ: secret: %w", err)
	}
	b, err := infile.All(path, f, 4096)
	if err != nil {
		return "", fmt.Errorf("environ: secret: %w", err)
	}
	return long(string(b), path)
}

// sheltered returns an error if others may replace the file at path: if its folder is
// another user's, or if anybody may write to a folder above it, except one where only
// owners remove files, such as /tmp.
func sheltered(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return err
	}
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
			return fmt.Errorf("others may exchange %s: anybody may write to %s (%v); make a new secret after chmod o-w %s", path, dir, info.Mode().Perm(), dir)
		}
		if dir == filepath.Dir(real) {
			if err := owned(dir, info); err != nil {
				return fmt.Errorf("others may exchange %s: %w", path, err)
			}
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// makeSecret writes a new secret to path, completely or not at all. It does not replace
// an existing file, so if several processes call makeSecret at once, one wins.
func makeSecret(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("environ: secret: %w", err)
	}
	f, remove, err := whole.Temporary(dir, "secret")
	if err != nil {
		return fmt.Errorf("environ: secret: %w", err)
	}
	defer remove() // leftovers are removed by the next process making a secret
	_, err = io.WriteString(f, NewSecret()+"\n")
	// While the file is open it is locked, so no other process removes it before the
	// naming.
	if err = errors.Join(err, f.Sync()); err != nil {
		return fmt.Errorf("environ: secret: %w", err)
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("environ: secret: %w", err)
	}
	return nil
}
