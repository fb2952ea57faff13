// A reverse proxy in front of the fake API server. Its clients can use HTTP/2, as with a real API
// server, which also uses Go's net/http. Prints the port, and a line for each connection that
// clients open or close.
//
//	http2-proxy CERTIFICATE KEY URL
package main

import (
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
)

func main() {
	target, err := url.Parse(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1 // Watch events must not wait.
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := http.Server{Handler: proxy, ConnState: func(conn net.Conn, state http.ConnState) {
		if state == http.StateNew || state == http.StateClosed {
			fmt.Println(state)
		}
	}}
	fmt.Printf("port %d\n", listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(server.ServeTLS(listener, os.Args[1], os.Args[2]))
}
