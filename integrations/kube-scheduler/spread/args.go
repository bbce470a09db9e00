package spread

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"sigs.k8s.io/yaml"
)

// OnUnavailable says what decides while Evenkeel does not answer.
type OnUnavailable string

const (
	// Fail has pods with spread constraints wait, with kube-scheduler's backoff.
	Fail OnUnavailable = "Fail"
	// InTree has PodTopologySpread decide.
	InTree OnUnavailable = "InTree"
)

// EvenkeelSpreadArgs are the arguments of the plugin in a profile.
type EvenkeelSpreadArgs struct {
	metav1.TypeMeta `json:",inline"`
	// Address of Evenkeel: HOST:PORT, several of these with commas between them, or a target of gRPC such
	// as dns:///evenkeel.kube-system:50051. Required.
	Address string `json:"address"`
	// Snapshot that the cluster feeds. Default "default".
	Snapshot string `json:"snapshot,omitempty"`
	// TLS encrypts the connection. Absent: it is not encrypted.
	TLS *TLS `json:"tls,omitempty"`
	// TokenFile has the token that is sent with each call. It is read anew for each, and needs TLS.
	TokenFile string `json:"tokenFile,omitempty"`
	// Timeout of one question. Default 1s.
	Timeout metav1.Duration `json:"timeout,omitempty"`
	// OnUnavailable says what decides while Evenkeel does not answer. Default InTree.
	OnUnavailable OnUnavailable `json:"onUnavailable,omitempty"`
	// DefaultConstraints and DefaultingType are those of PodTopologySpreadArgs.
	DefaultConstraints []corev1.TopologySpreadConstraint             `json:"defaultConstraints,omitempty"`
	DefaultingType     config.PodTopologySpreadConstraintsDefaulting `json:"defaultingType,omitempty"`
}

// TLS says how the connection is encrypted.
type TLS struct {
	// CAFile has the certificates that the server is checked with. Default: those of the system.
	CAFile string `json:"caFile,omitempty"`
	// CertFile and KeyFile are the scheduler's own, for servers that ask for one.
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
	// ServerName in the server's certificate. Default: the host of the address.
	ServerName string `json:"serverName,omitempty"`
}

// readArgs decodes what a profile has, fills in the defaults and validates.
func readArgs(configured runtime.Object) (*EvenkeelSpreadArgs, error) {
	args := &EvenkeelSpreadArgs{}
	switch given := configured.(type) {
	case nil:
	case *EvenkeelSpreadArgs:
		*args = *given
	case *runtime.Unknown:
		if err := yaml.UnmarshalStrict(given.Raw, args); err != nil {
			return nil, fmt.Errorf("args of %s: %w", Name, err)
		}
	default:
		return nil, fmt.Errorf("args of %s are a %T", Name, configured)
	}
	args.setDefaults()
	return args, args.validate()
}

func (a *EvenkeelSpreadArgs) setDefaults() {
	if a.Snapshot == "" {
		a.Snapshot = "default"
	}
	if a.Timeout.Duration == 0 {
		a.Timeout.Duration = time.Second
	}
	if a.OnUnavailable == "" {
		a.OnUnavailable = InTree
	}
	if a.DefaultingType == "" {
		a.DefaultingType = config.SystemDefaulting
	}
}

// validate checks what is the plugin's own; PodTopologySpread checks the default constraints.
func (a *EvenkeelSpreadArgs) validate() error {
	var faults field.ErrorList
	fault := func(wrong bool, fault *field.Error) {
		if wrong {
			faults = append(faults, fault)
		}
	}
	fault(a.Address == "", field.Required(field.NewPath("address"), "where Evenkeel listens"))
	fault(a.Timeout.Duration < 0, field.Invalid(field.NewPath("timeout"), a.Timeout.String(), "must be positive"))
	fault(a.OnUnavailable != Fail && a.OnUnavailable != InTree,
		field.NotSupported(field.NewPath("onUnavailable"), a.OnUnavailable, []OnUnavailable{Fail, InTree}))
	fault(a.TokenFile != "" && a.TLS == nil,
		field.Required(field.NewPath("tls"), "a token is sent over encrypted connections only"))
	fault(a.TLS != nil && (a.TLS.CertFile == "") != (a.TLS.KeyFile == ""),
		field.Required(field.NewPath("tls"), "certFile and keyFile go together"))
	return faults.ToAggregate()
}

// DeepCopyObject makes it an object that a configuration may hold.
func (a *EvenkeelSpreadArgs) DeepCopyObject() runtime.Object {
	copied := *a
	if a.TLS != nil {
		tls := *a.TLS
		copied.TLS = &tls
	}
	copied.DefaultConstraints = nil
	for i := range a.DefaultConstraints {
		copied.DefaultConstraints = append(copied.DefaultConstraints, *a.DefaultConstraints[i].DeepCopy())
	}
	return &copied
}
