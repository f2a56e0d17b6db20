"""Files and folders, local or in an object store, and the lease that says which job may write."""
