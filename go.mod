module github.com/gomoe/gomoe

go 1.26
