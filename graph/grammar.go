package graph

// Grammar is the grammar of the text form of programs, in the EBNF of the Go
// specification. Parse reads a file and returns its last program;
// Program.String writes a file.
const Grammar = `file      = { newline } program newline { program newline } .
program   = "program" word "(" [ input { "," input } ] ")" "{" newline
            { ( equation | scope ) newline } "return" [ name { "," name } ] newline "}" .
input     = name type .
equation  = [ binder { "," binder } "=" ] word "(" [ name { "," name } ] ")" { parameter } .
scope     = "scope" [ string ] .
binder    = name [ type ] .
parameter = word "=" value .
value     = integer | number | "true" | "false" | string | dtype | word | list | program .
list      = "[" [ value { "," value } ] "]" .
type      = dtype "[" [ integer { "," integer } ] "]" .
dtype     = "bool" | "u8" | "u32" | "i32" | "i64" | "f8_e4m3" | "f8_e5m2"
          | "f16" | "bf16" | "f32" | "f64"
          | "q8_0" | "q4_k" | "q6_k" | "q2_k" | "iq2_xxs" | "mxfp4"
          | "q4_0" | "q4_1" | "q5_0" | "q5_1" | "q3_k" | "q5_k"
          | "iq3_xxs" | "iq4_nl" | "iq4_xs" .
name      = word | string .
word      = letter { letter | digit } .
integer   = [ "-" ] digit { digit } .
number    = integer [ "." { digit } ] [ ( "e" | "E" ) [ "+" | "-" ] digit { digit } ]
          | [ "-" ] "inf" | "nan" .
string    = a double-quoted string of Go .
letter    = "a" … "z" | "A" … "Z" | "_" .
digit     = "0" … "9" .

A newline is one or more ends of line. # begins a comment, which runs to the
end of its line. A value is named once in its program and a program once in its
file; both are used only below their definition. A value's name is not empty; it
is quoted if it is no word, and if it is return or program, which belong to the
file's structure. In an equation the primitive's name stands before its
arguments, and a value of a parameter is what the parameter's Go type asks for:
a word is the name of a program above, and the body of a loop is a program that
stands inside the equation, with names of its own. Parameters that are zero are
left out, but for the length of a scan. The equations below a scope belong to the part of the model that the
string names, those below a scope without a string to none. The type behind a
binder of an equation may be left out; if given, it must be the one inferred.
Names v1, v2, ... of results belong to the printer, which numbers them anew.
`
