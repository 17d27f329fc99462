"""Files and folders of projects."""
