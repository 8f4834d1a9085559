package receiver

// Payloads with the fields that the forges' documentation shows, shortened.
const (
	gitHubPush = `{"ref":"refs/heads/main","before":"6113728f27ae82c7b1a177c8d03f9e96e0adf246","after":"0000000000000000000000000000000000000001",
		"created":false,"deleted":false,"forced":false,"base_ref":null,"compare":"https://github.com/octo/fleet/compare/6113728f27ae...000000000000",
		"commits":[{"id":"0000000000000000000000000000000000000001","message":"Grow","timestamp":"2026-05-04T12:00:00Z","added":["a.yaml"],"removed":[],"modified":[]}],
		"head_commit":{"id":"0000000000000000000000000000000000000001"},
		"repository":{"id":1,"full_name":"octo/fleet","private":true,"html_url":"https://github.com/octo/fleet","clone_url":"https://github.com/octo/fleet.git",
		"ssh_url":"git@github.com:octo/fleet.git","default_branch":"main","master_branch":"main"},"pusher":{"name":"octo"},"sender":{"login":"octo","id":1}}`
	gitHubTag    = `{"ref":"refs/tags/v1.2.0","before":"0000000000000000000000000000000000000000","after":"0000000000000000000000000000000000000001","created":true,"repository":{"default_branch":"main"}}`
	gitHubCreate = `{"ref":"v1.2.0","ref_type":"tag","master_branch":"main","description":null,"pusher_type":"user","repository":{"default_branch":"main"}}`
	gitHubDelete = `{"ref":"trial","ref_type":"branch","pusher_type":"user","repository":{"default_branch":"main"}}`
	gitHubPing   = `{"zen":"Design for failure.","hook_id":30,"hook":{"type":"Repository","events":["push"],"active":true,"config":{"content_type":"json","insecure_ssl":"0"}},"repository":{"default_branch":"main"}}`
	gitHubReview = `{"action":"synchronize","number":7,"pull_request":{"number":7,"head":{"ref":"trial"},"base":{"ref":"main"}},"repository":{"default_branch":"main"}}`

	gitLabPush = `{"object_kind":"push","event_name":"push","before":"95790bf891e76fee5e1747ab589903a6a1f80f22","after":"da1560886d4f094c3e6c9ef40349f7d38b5d27d7",
		"ref":"refs/heads/main","ref_protected":true,"checkout_sha":"da1560886d4f094c3e6c9ef40349f7d38b5d27d7","user_username":"octo","project_id":15,
		"project":{"id":15,"name":"fleet","git_ssh_url":"git@gitlab.example.org:octo/fleet.git","git_http_url":"https://gitlab.example.org/octo/fleet.git","default_branch":"main"},
		"commits":[{"id":"da1560886d4f094c3e6c9ef40349f7d38b5d27d7","message":"Grow","added":["a.yaml"],"modified":[],"removed":[]}],"total_commits_count":1}`
	gitLabTag        = `{"object_kind":"tag_push","event_name":"tag_push","ref":"refs/tags/v1.2.0","project":{"default_branch":"main"}}`
	gitLabMerge      = `{"object_kind":"merge_request","event_type":"merge_request","object_attributes":{"iid":7,"state":"opened","target_branch":"main"},"project":{"default_branch":"main"}}`
	gitLabSystemPush = `{"object_kind":"push","event_name":"push","ref":"refs/heads/main","project":{"default_branch":"main"}}`
	gitLabUpdate     = `{"event_name":"repository_update","changes":[{"ref":"refs/heads/trial"}],"refs":["refs/heads/trial"],"project":{"default_branch":"main"}}`
	gitLabUser       = `{"event_name":"user_create","username":"octo"}`

	giteaPush = `{"ref":"refs/heads/main","before":"28e1879d029cb852e4844d9c718537df08844e03","after":"bffeb74224043ba2feb48d137756c8a9331c449a","compare_url":"https://git.example.org/octo/fleet/compare/28e1879...bffeb74",
		"commits":[{"id":"bffeb74224043ba2feb48d137756c8a9331c449a","message":"Grow","added":["a.yaml"],"removed":[],"modified":[]}],"total_commits":1,
		"repository":{"id":140,"full_name":"octo/fleet","clone_url":"https://git.example.org/octo/fleet.git","ssh_url":"ssh://git@git.example.org/octo/fleet.git","default_branch":"main"},"pusher":{"login":"octo"}}`
	giteaCreate = `{"sha":"bffeb74224043ba2feb48d137756c8a9331c449a","ref":"v1.2.0","ref_type":"tag","repository":{"default_branch":"main"}}`

	bitbucketPush = `{"push":{"changes":[{"new":{"type":"branch","name":"main","target":{"type":"commit","hash":"709d658dc5b6d6afcd46049c2f332ee3f515a67d"}},
		"old":{"type":"branch","name":"main","target":{"type":"commit","hash":"1e65c05c1d5171631d92438a13901ca7dae9618c"}},"created":false,"forced":false,"closed":false,"truncated":false,"commits":[]}]},
		"actor":{"type":"user","nickname":"octo"},"repository":{"type":"repository","full_name":"octo/fleet","mainbranch":{"type":"branch","name":"main"}}}`
	bitbucketTag     = `{"push":{"changes":[{"new":{"type":"tag","name":"v1.2.0"},"old":null,"created":true}]},"repository":{"full_name":"octo/fleet"}}`
	bitbucketDelete  = `{"push":{"changes":[{"new":null,"old":{"type":"branch","name":"trial"},"closed":true}]},"repository":{"full_name":"octo/fleet"}}`
	bitbucketChanged = `{"eventKey":"repo:refs_changed","date":"2026-05-04T12:00:00+0000","actor":{"name":"octo"},"repository":{"slug":"fleet","project":{"key":"OCTO"}},
		"changes":[{"ref":{"id":"refs/heads/main","displayId":"main","type":"BRANCH"},"refId":"refs/heads/main","fromHash":"ecddabb624f6f5ba43816f5926e580a5f680a932","toHash":"178864a7d521b6f5e720b386b2c2b0ef8563e0dc","type":"UPDATE"}]}`
	bitbucketHg = `{"push":{"changes":[{"new":{"type":"bookmark","name":"x"},"old":null}]}}`
)
