package svcmap

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/you/svcmap/api/clients/go/svcmapv1"
)

// stateFile stores the state token and the digests of the objects that the agent stores. Each line is a
// record in JSON. The first line contains all objects, and each further line contains the changes of
// one Ack. A record is valid only if it follows the token of the previous record, so an incomplete or
// foreign record ends the file. Losing records is safe: the agent does not recognize an old token and
// requests a snapshot.
type stateFile struct {
	path  string
	file  *os.File
	token string // Of the last record.
	limit int    // Size at which the file is rewritten.
	size  int
}

type record struct {
	After   string            `json:"after,omitempty"` // Token of the previous record.
	Token   string            `json:"token"`
	Objects map[string]string `json:"objects,omitempty"` // Digests. Empty: removed.
}

const minRewriteBytes = 1 << 20

func (k key) fileKey() string {
	return fmt.Sprintf("%s/%s/%s", k.kind, k.namespace, k.name)
}

// openStateFile reads a state file into the state. A missing or invalid file is not an error.
func openStateFile(path string, s *state) (*stateFile, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("svcmap: Controller.StateFile: %w", err)
	}
	f := &stateFile{path: path}
	digests := map[string]string{}
	for _, line := range bytes.SplitAfter(data, []byte("\n")) {
		var r record
		if !bytes.HasSuffix(line, []byte("\n")) || json.Unmarshal(line, &r) != nil || r.After != f.token {
			break
		}
		f.token = r.Token
		for k, d := range r.Objects {
			digests[k] = d
		}
	}
	if s.token, err = hex.DecodeString(f.token); err != nil {
		s.token = nil
	}
	for text, d := range digests {
		part := strings.SplitN(text, "/", 3)
		if d == "" || len(part) != 3 {
			continue
		}
		k := key{svcmapv1.Kind(svcmapv1.Kind_value[part[0]]), part[1], part[2]}
		o := &object{key: k, stored: unknown}
		if raw, err := hex.DecodeString(d); err == nil && len(raw) == len(o.stored) {
			copy(o.stored[:], raw)
		}
		s.objects[k] = o
	}
	return f, nil
}

// rewrite replaces the file.
func (f *stateFile) rewrite(s *state) error {
	r := record{Token: hex.EncodeToString(s.token), Objects: map[string]string{}}
	for k, o := range s.objects {
		if o.stored != (digest{}) {
			r.Objects[k.fileKey()] = hex.EncodeToString(o.stored[:])
		}
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f.close()
	file, err := os.OpenFile(f.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = file.Write(append(line, '\n')); err == nil {
		err = os.Rename(f.path+".new", f.path)
	}
	if err != nil {
		file.Close()
		return err
	}
	f.file, f.token, f.size = file, r.Token, len(line)
	if f.limit = 2 * f.size; f.limit < minRewriteBytes {
		f.limit = minRewriteBytes
	}
	return nil
}

// append adds the changes of one Ack.
func (f *stateFile) append(s *state, objects []sentObject) error {
	if f.file == nil || f.size > f.limit {
		return f.rewrite(s)
	}
	r := record{After: f.token, Token: hex.EncodeToString(s.token), Objects: map[string]string{}}
	for _, sent := range objects {
		d := ""
		if sent.object.stored != (digest{}) {
			d = hex.EncodeToString(sent.object.stored[:])
		}
		r.Objects[sent.object.key.fileKey()] = d
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := f.file.Write(append(line, '\n')); err != nil {
		f.close() // The next Ack rewrites the file.
		return err
	}
	f.token = r.Token
	f.size += len(line)
	return nil
}

func (f *stateFile) close() {
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}
