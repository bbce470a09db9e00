package evenkeel

import (
	"errors"
	"regexp"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	evenkeelv1 "evenkeel.dev/client/v1"
)

// Change returns the change that creates or updates an object, such as a Node or a Pod. It panics
// for a message that is no object of a snapshot.
func Change(object proto.Message) *evenkeelv1.Change {
	change := &evenkeelv1.Change{}
	message := object.ProtoReflect()
	fields := change.ProtoReflect().Descriptor().Fields()
	for number := range fields.Len() {
		field := fields.Get(number)
		if field.Message() == message.Descriptor() && field.Name() != "delete" {
			change.ProtoReflect().Set(field, protoreflect.ValueOfMessage(message))
			return change
		}
	}
	panic("no object of a snapshot: " + string(message.Descriptor().FullName()))
}

// Delete returns the change that deletes an object: a kind such as "Pod", and its namespace, name
// and, if it is not empty, uid.
func Delete(kind, namespace, name, uid string) *evenkeelv1.Change {
	return &evenkeelv1.Change{Object: &evenkeelv1.Change_Delete{Delete: &evenkeelv1.ObjectReference{
		Kind: kind, Namespace: namespace, Name: name, Uid: uid}}}
}

// identity is what a batch may have one change of.
type identity struct{ kind, namespace, name string }

func identityOf(change *evenkeelv1.Change) identity {
	var id identity
	message := change.ProtoReflect()
	field := message.WhichOneof(message.Descriptor().Oneofs().ByName("object"))
	if field == nil {
		return id
	}
	if gone := change.GetDelete(); gone != nil {
		id = identity{gone.GetKind(), gone.GetNamespace(), gone.GetName()}
	} else {
		object := message.Get(field).Message()
		named, _ := object.Interface().(interface{ GetMetadata() *evenkeelv1.ObjectMeta })
		id.kind = string(object.Descriptor().Name())
		if named != nil {
			id.namespace, id.name = named.GetMetadata().GetNamespace(), named.GetMetadata().GetName()
		}
	}
	switch {
	case id.kind == "Node" || id.kind == "Namespace":
		id.namespace = ""
	case id.namespace == "":
		id.namespace = "default"
	}
	return id
}

// batchOf returns how many of these changes may be sent together.
func batchOf(changes []*evenkeelv1.Change) int {
	seen := make(map[identity]bool)
	for number, change := range changes {
		id := identityOf(change)
		if seen[id] || number == batchSize {
			return number
		}
		seen[id] = true
	}
	return len(changes)
}

var changeField = regexp.MustCompile(`^update\.changes\[(\d+)\]`)

// refusedIn returns the changes of a batch that an error names as not valid, by number.
func refusedIn(err error, batch int) map[int]bool {
	refused := make(map[int]bool)
	var answered interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &answered) || answered.GRPCStatus().Code() != codes.InvalidArgument {
		return refused
	}
	for _, detail := range answered.GRPCStatus().Details() {
		faults, _ := detail.(*errdetails.BadRequest)
		for _, fault := range faults.GetFieldViolations() {
			if found := changeField.FindStringSubmatch(fault.GetField()); found != nil {
				if number, err := strconv.Atoi(found[1]); err == nil && number < batch {
					refused[number] = true
				}
			}
		}
	}
	return refused
}
