package environ

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// MinSecret is the fewest bytes of a secret.
const MinSecret = 16

// Key returns the secret by which the job's processes know each other: what
// GOMOE_SECRET holds, or the file of GOMOE_SECRET_FILE, or this user's file,
// gomoe/secret in dir, which is os.UserConfigDir's folder if empty.
//
// If there is no such file and the ranks meet at this machine's loopback address, Key makes
// the file. If ranks of other machines meet there, a missing file is an error, which says how
// to copy one. A file that somebody else than its owner can read is refused.
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

// loopback reports whether an address is one of this machine that no other machine reaches.
func loopback(address string) bool {
	host, _, err := splitAddress(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func long(s, from string) (string, error) {
	if s = strings.TrimSpace(s); len(s) < MinSecret {
		return "", fmt.Errorf("environ: %s: a secret of %d bytes, want at least %d, such as from openssl rand -hex 32", from, len(s), MinSecret)
	}
	return s, nil
}

// readSecret reads a file with a secret. It checks the permissions of the file that is open,
// so that nobody can exchange the file between the check and the reading.
func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("environ: secret: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", fmt.Errorf("environ: secret: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("environ: secret: %s is no regular file", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0: // there, the user's folder is the user's
		return "", fmt.Errorf("environ: secret: others may read %s (%v); make a new one, or if nobody has, chmod 600 %s", path, info.Mode().Perm(), path)
	}
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", fmt.Errorf("environ: secret: %w", err)
	}
	return long(string(b), path)
}

// makeSecret writes a new secret to path, complete or not at all, unless there is
// one: of several processes that call it at once, one wins.
func makeSecret(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("environ: secret: %w", err)
	}
	f, err := os.CreateTemp(dir, ".secret-") // 0600
	if err != nil {
		return fmt.Errorf("environ: secret: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = io.WriteString(f, NewSecret()+"\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("environ: secret: %w", err)
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("environ: secret: %w", err)
	}
	return nil
}
