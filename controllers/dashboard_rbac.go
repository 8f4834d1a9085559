package controllers

// Those who ask the hub's API are identified by their token, and what they see is what they may read: both are questions
// to the API server.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
