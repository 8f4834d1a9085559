package copies

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// redact drops a message of a member that quotes a Secret, as an admission webhook's may.
func redact(err error, obj client.Object) error {
	secret, ok := obj.(*corev1.Secret)
	var status apierrors.APIStatus
	if !ok || !errors.As(err, &status) {
		return err
	}
	message := err.Error()
	for _, value := range secret.Data {
		text := strings.TrimSpace(string(value))
		if len(text) > 2 && strings.Contains(message, text) || len(text) > 0 && strings.Contains(message, base64.StdEncoding.EncodeToString(value)) {
			return fmt.Errorf("the member refused Secret %s (%s), in a message that quotes it and is redacted", obj.GetName(), apierrors.ReasonForError(err))
		}
	}
	return err
}
