package evenkeel

import (
	"google.golang.org/protobuf/proto"
)

// Convert reads an object of k8s.io/api, such as *corev1.Pod, as one of Evenkeel: their bytes
// are the same. Fields that no decision reads are left out, so they are not sent either.
//
//	pod, err := evenkeel.Convert(object, &evenkeelv1.Pod{})
func Convert[T proto.Message](object interface{ Marshal() ([]byte, error) }, into T) (T, error) {
	bytes, err := object.Marshal()
	if err == nil {
		err = proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(bytes, into)
	}
	return into, err
}
