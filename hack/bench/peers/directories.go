package peers

import (
	"fmt"
	"path"
)

// directories is how the repository looks for a peer that applies directories of it: one for each member or, with each,
// one for each MiniCluster, and then one for the hub with the objects that have those applied.
type directories struct {
	namespace, url string
	each           bool
	// apply is a template of the object that has a directory applied to a member; without a Member, to the hub.
	apply string
}

// roots returns the directories that are in Git from the begin, each with a file, and the objects for them.
func (d *directories) roots() (files map[string]string, objects []string, err error) {
	paths, members := []string{"fleet"}, []string{""}
	if !d.each {
		paths, members = nil, memberNames
		for _, member := range memberNames {
			paths = append(paths, "members/"+member)
		}
	}
	files = map[string]string{}
	for i, directory := range paths {
		object, err := d.object(path.Base(directory), directory, members[i])
		if err != nil {
			return nil, nil, err
		}
		objects = append(objects, object)
		files[directory+"/placeholder.yaml"] = fmt.Sprintf(placeholder, d.namespace)
	}
	return files, objects, nil
}

// placeholder is in a directory before there is anything else, since an empty one cannot be applied.
const placeholder = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: placeholder, namespace: %s}\n"

func (d *directories) object(name, directory, member string) (string, error) {
	text, err := fill(d.apply, map[string]string{"Name": name, "Namespace": d.namespace, "URL": d.url, "Path": directory, "Member": member})
	return string(text), err
}

// files returns those of a push.
func (d *directories) files(names []string) (map[string]string, error) {
	files := map[string]string{}
	for i, name := range names {
		objects, err := plain(name, d.namespace)
		if err != nil {
			return nil, err
		}
		if !d.each {
			files["members/"+memberOf(i)+"/"+name+".yaml"] = objects
			continue
		}
		directory := "miniclusters/" + name
		files[directory+"/objects.yaml"] = objects
		if files["fleet/"+name+".yaml"], err = d.object(name, directory, memberOf(i)); err != nil {
			return nil, err
		}
	}
	return files, nil
}
