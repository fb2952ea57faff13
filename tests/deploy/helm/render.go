// Renders a Helm chart with the functions that the chart in deploy/helm uses. There is no Helm in Debian.
//
// render CHART NAMESPACE VALUES...: prints a JSON object with the rendered templates by file name. Later
// values files take precedence.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

type object = map[string]interface{}

func readYaml(path string) (object, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	read := object{}
	if err := yaml.Unmarshal(text, &read); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return read, nil
}

// mergeValues sets the values of `over` in `base`, as Helm does for several values files.
func mergeValues(base, over object) {
	for key, value := range over {
		inner, isObject := value.(object)
		before, wasObject := base[key].(object)
		if isObject && wasObject {
			mergeValues(before, inner)
		} else if value == nil {
			delete(base, key)
		} else {
			base[key] = value
		}
	}
}

func functions(all *template.Template) template.FuncMap {
	added := sprig.TxtFuncMap()
	delete(added, "env")
	delete(added, "expandenv")
	added["include"] = func(name string, data interface{}) (string, error) {
		var out bytes.Buffer
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	added["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	added["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, errors.New(message)
		}
		return value, nil
	}
	return added
}

// upperKeys returns Chart.yaml as templates see it: .Chart.AppVersion.
func upperKeys(chart object) object {
	upper := object{}
	for key, value := range chart {
		upper[strings.ToUpper(key[:1])+key[1:]] = value
	}
	return upper
}

func run() error {
	folder, namespace := os.Args[1], os.Args[2]
	chart, err := readYaml(filepath.Join(folder, "Chart.yaml"))
	if err != nil {
		return err
	}
	values, err := readYaml(filepath.Join(folder, "values.yaml"))
	if err != nil {
		return err
	}
	for _, path := range os.Args[3:] {
		over, err := readYaml(path)
		if err != nil {
			return err
		}
		mergeValues(values, over)
	}
	paths, err := filepath.Glob(filepath.Join(folder, "templates", "*"))
	if err != nil {
		return err
	}
	all := template.New("chart").Option("missingkey=error")
	all.Funcs(functions(all))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, err := all.New(filepath.Base(path)).Parse(string(text)); err != nil {
			return err
		}
	}
	data := object{
		"Values":  values,
		"Chart":   upperKeys(chart),
		"Release": object{"Name": "svcmap", "Namespace": namespace},
	}
	rendered := map[string]string{}
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var out bytes.Buffer
		if err := all.ExecuteTemplate(&out, name, data); err != nil {
			return err
		}
		rendered[name] = out.String()
	}
	return json.NewEncoder(os.Stdout).Encode(object{"values": values, "rendered": rendered})
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
