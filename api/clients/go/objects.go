package svcmap

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/you/svcmap/api/clients/go/svcmapv1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Object is a *svcmapv1.Service, *svcmapv1.EndpointSlice, *svcmapv1.Node or *svcmapv1.ServiceCIDR.
type Object interface {
	proto.Message
	GetMetadata() *svcmapv1.ObjectMeta
}

// Result is a rejected object or a warning.
type Result = svcmapv1.ObjectResult

// ReadList parses a file, see ParseList.
func ReadList(path string) ([]Object, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParseList(data)
}

// ParseList parses a Kubernetes list or a single Kubernetes object in JSON, for example the output of
// `kubectl get services,endpointslices -A -o json`. ParseList ignores fields of Kubernetes that svcmap does
// not use, and returns an error for other unknown fields, such as a misspelled clusterIP. In an object with
// metadata.uid, all unknown fields are ignored: the API server has checked the object, so they are fields of
// newer versions of Kubernetes.
func ParseList(data []byte) ([]Object, error) {
	objects, err := parseList(data, "")
	if err != nil {
		return nil, fmt.Errorf("svcmap: %w", err)
	}
	return objects, nil
}

func parseList(data []byte, defaultKind string) ([]Object, error) {
	var list struct {
		Kind  string
		Items []json.RawMessage
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("parse list: %w", err)
	}
	if list.Kind == "" {
		list.Kind = defaultKind // The API server omits the kind of list items.
	}
	var object Object
	switch list.Kind {
	case "Service":
		object = &svcmapv1.Service{}
	case "EndpointSlice":
		object = &svcmapv1.EndpointSlice{}
	case "Node":
		object = &svcmapv1.Node{}
	case "ServiceCIDR":
		object = &svcmapv1.ServiceCIDR{}
	default:
		if !strings.HasSuffix(list.Kind, "List") {
			return nil, fmt.Errorf("kind: Unsupported value: %q: supported values: "+
				"\"List\", \"Service\", \"EndpointSlice\", \"Node\", \"ServiceCIDR\"", list.Kind)
		}
		var names map[string]json.RawMessage
		if err := json.Unmarshal(data, &names); err != nil {
			return nil, err
		}
		for name := range names {
			switch name {
			case "apiVersion", "kind", "metadata", "items":
			default:
				return nil, fmt.Errorf("%s: %s: unknown field", list.Kind, name)
			}
		}
		var objects []Object
		for i, item := range list.Items {
			parsed, err := parseList(item, strings.TrimSuffix(list.Kind, "List"))
			if err != nil {
				return nil, fmt.Errorf("items[%d]: %w", i, err)
			}
			objects = append(objects, parsed...)
		}
		return objects, nil
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, object); err != nil {
		return nil, fmt.Errorf("parse %s: %w", keyOf(object), err)
	}
	var value map[string]interface{}
	if err := json.Unmarshal(data, &value); err != nil {
		return nil, err
	}
	if metadata, ok := value["metadata"].(map[string]interface{}); !ok || metadata["uid"] == nil {
		delete(value, "apiVersion")
		delete(value, "kind")
		if unknown := unknownField(value, object.ProtoReflect().Descriptor()); unknown != "" {
			return nil, fmt.Errorf("%s: %s: unknown field", keyOf(object), unknown)
		}
	}
	return []Object{object}, nil
}

// unread contains the fields of Kubernetes that svcmap does not use, by message
// (api/manifests/known_fields.cc).
var unread = map[protoreflect.Name]string{
	"ObjectMeta": "deletionGracePeriodSeconds finalizers generateName generation managedFields ownerReferences " +
		"resourceVersion selfLink uid",
	"ServiceSpec": "allocateLoadBalancerNodePorts externalName ipFamilyPolicy loadBalancerClass loadBalancerIP " +
		"publishNotReadyAddresses selector trafficDistribution",
	"ServicePort":         "appProtocol targetPort",
	"ServiceStatus":       "conditions",
	"LoadBalancerIngress": "ports",
	"Endpoint":            "deprecatedTopology hostname targetRef",
	"EndpointPort":        "appProtocol",
	"NodeSpec":            "configSource externalID podCIDR providerID unschedulable",
	"Taint":               "effect timeAdded value",
	"NodeStatus": "allocatable capacity conditions config daemonEndpoints declaredFeatures features images nodeInfo " +
		"phase runtimeHandlers volumesAttached volumesInUse",
	"ServiceCIDR": "status",
}

// unknownField returns the path of a field that neither the message nor Kubernetes has, or "".
func unknownField(value map[string]interface{}, message protoreflect.MessageDescriptor) string {
	names := make([]string, 0, len(value))
	for name := range value {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		field := message.Fields().ByJSONName(name)
		if field == nil {
			field = message.Fields().ByName(protoreflect.Name(name))
		}
		if field == nil {
			if !strings.Contains(" "+unread[message.Name()]+" ", " "+name+" ") {
				return name
			}
			continue
		}
		if field.Message() == nil || field.IsMap() {
			continue
		}
		items, list := value[name].([]interface{})
		if !list {
			items = []interface{}{value[name]}
		}
		for i, item := range items {
			child, _ := item.(map[string]interface{})
			if unknown := unknownField(child, field.Message()); unknown != "" {
				if list {
					return fmt.Sprintf("%s[%d].%s", name, i, unknown)
				}
				return name + "." + unknown
			}
		}
	}
	return ""
}

// FromKubernetes converts a Kubernetes object, such as a *corev1.Service, to the message of the same kind:
//
//	var service svcmapv1.Service
//	err := svcmap.FromKubernetes(informerService, &service)
//
// Fields that svcmap does not use are dropped, so a change of resourceVersion alone is not sent.
func FromKubernetes(from interface{ Marshal() ([]byte, error) }, to Object) error {
	data, err := from.Marshal()
	if err == nil {
		err = (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, to)
	}
	if err != nil {
		return fmt.Errorf("svcmap: convert %T: %w", from, err)
	}
	return nil
}

// key identifies an object.
type key struct {
	kind            svcmapv1.Kind
	namespace, name string
}

// checkObjects returns an error if one of the objects is nil.
func checkObjects(objects []Object) error {
	for i, object := range objects {
		if object == nil || !object.ProtoReflect().IsValid() {
			return fmt.Errorf("svcmap: objects[%d] is nil: must be a Service, EndpointSlice, Node or ServiceCIDR", i)
		}
	}
	return nil
}

func keyOf(object Object) key {
	k := key{namespace: object.GetMetadata().GetNamespace(), name: object.GetMetadata().GetName()}
	switch object.(type) {
	case *svcmapv1.Service:
		k.kind = svcmapv1.Kind_KIND_SERVICE
	case *svcmapv1.EndpointSlice:
		k.kind = svcmapv1.Kind_KIND_ENDPOINT_SLICE
	case *svcmapv1.Node:
		k.kind = svcmapv1.Kind_KIND_NODE
	case *svcmapv1.ServiceCIDR:
		k.kind = svcmapv1.Kind_KIND_SERVICE_CIDR
	default:
		panic(fmt.Sprintf("svcmap: unsupported object type %T", object))
	}
	return k
}

// rank is the position of the kind in a snapshot. EndpointSlices precede Services, because a Service
// without endpoints rejects connections.
func (k key) rank() int {
	switch k.kind {
	case svcmapv1.Kind_KIND_SERVICE_CIDR:
		return 0
	case svcmapv1.Kind_KIND_NODE:
		return 1
	case svcmapv1.Kind_KIND_ENDPOINT_SLICE:
		return 2
	default:
		return 3
	}
}

func (k key) String() string {
	kind := map[svcmapv1.Kind]string{
		svcmapv1.Kind_KIND_SERVICE:        "Service",
		svcmapv1.Kind_KIND_ENDPOINT_SLICE: "EndpointSlice",
		svcmapv1.Kind_KIND_NODE:           "Node",
		svcmapv1.Kind_KIND_SERVICE_CIDR:   "ServiceCIDR",
	}[k.kind]
	if k.namespace == "" {
		return kind + " " + k.name
	}
	return kind + " " + k.namespace + "/" + k.name
}

// result returns the result for an object that the client did not send.
func (k key) result(reason string) *Result {
	return &Result{
		Kind: k.kind, Namespace: k.namespace, Name: k.name, Severity: svcmapv1.Severity_REFUSED,
		Reason: reason,
		Message: fmt.Sprintf("%s rejected: %s; the previously accepted version, if any, stays in effect",
			k, reason),
	}
}

// repeated returns the result for an object of which a list contains several versions.
func (k key) repeated() *Result {
	reason := "the list contains several versions of the object; the last version is used"
	return &Result{
		Kind: k.kind, Namespace: k.namespace, Name: k.name, Severity: svcmapv1.Severity_WARNING,
		Code: svcmapv1.ResultCode_DUPLICATE, Reason: reason, Message: k.String() + ": " + reason,
	}
}

// digest identifies a version of an object. The zero value means that the object does not exist.
type digest [16]byte

// change is the desired version of one object.
type change struct {
	key    key
	entry  []byte // Serialized Batch that contains only this change. Empty for removals.
	digest digest
	err    error // The object cannot be serialized.
}

func upsert(object Object) change {
	c := change{key: keyOf(object)}
	var wire svcmapv1.Change
	switch o := object.(type) {
	case *svcmapv1.Service:
		wire.Change = &svcmapv1.Change_Service{Service: o}
	case *svcmapv1.EndpointSlice:
		wire.Change = &svcmapv1.Change_EndpointSlice{EndpointSlice: o}
	case *svcmapv1.Node:
		wire.Change = &svcmapv1.Change_Node{Node: o}
	case *svcmapv1.ServiceCIDR:
		wire.Change = &svcmapv1.Change_ServiceCidr{ServiceCidr: o}
	}
	if c.entry, c.err = serialize(&wire); c.err == nil {
		sum := sha256.Sum256(c.entry)
		copy(c.digest[:], sum[:])
	}
	return c
}

func removal(k key) []byte {
	entry, err := serialize(&svcmapv1.Change{Change: &svcmapv1.Change_Remove{
		Remove: &svcmapv1.ObjectRef{Kind: k.kind, Namespace: k.namespace, Name: k.name}}})
	if err != nil {
		panic(err) // The key was part of a serialized object.
	}
	return entry
}

func serialize(c *svcmapv1.Change) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(
		&svcmapv1.Batch{Changes: []*svcmapv1.Change{c}})
}
