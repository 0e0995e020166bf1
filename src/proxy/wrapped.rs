//! Streams around another stream: what is asked of the connection below, the inner one answers.

/// Lets the field `inner` of a type answer what Pingora asks of a stream beside reading, writing and peeking.
macro_rules! answers_as_inner {
    ($stream:ty) => {
        const _: () = {
            use std::sync::Arc;

            use async_trait::async_trait;
            use pingora::protocols::ALPN;
            use pingora::protocols::GetProxyDigest;
            use pingora::protocols::GetSocketDigest;
            use pingora::protocols::GetTimingDigest;
            use pingora::protocols::Shutdown;
            use pingora::protocols::SocketDigest;
            use pingora::protocols::Ssl;
            use pingora::protocols::TimingDigest;
            use pingora::protocols::UniqueID;
            use pingora::protocols::UniqueIDType;
            use pingora::protocols::raw_connect::ProxyDigest;
            use pingora::protocols::tls::SslDigest;
            use pingora::protocols::tls::TlsRef;

            #[async_trait]
            impl Shutdown for $stream {
                async fn shutdown(&mut self) {
                    Shutdown::shutdown(self.inner.as_mut()).await;
                }
            }

            impl UniqueID for $stream {
                fn id(&self) -> UniqueIDType {
                    self.inner.id()
                }
            }

            impl Ssl for $stream {
                fn get_ssl(&self) -> Option<&TlsRef> {
                    self.inner.get_ssl()
                }

                fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
                    self.inner.get_ssl_digest()
                }

                fn selected_alpn_proto(&self) -> Option<ALPN> {
                    self.inner.selected_alpn_proto()
                }
            }

            impl GetTimingDigest for $stream {
                fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
                    self.inner.get_timing_digest()
                }
            }

            impl GetProxyDigest for $stream {
                fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
                    self.inner.get_proxy_digest()
                }

                fn set_proxy_digest(&mut self, digest: ProxyDigest) {
                    self.inner.set_proxy_digest(digest);
                }
            }

            impl GetSocketDigest for $stream {
                fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
                    self.inner.get_socket_digest()
                }

                fn set_socket_digest(&mut self, digest: SocketDigest) {
                    self.inner.set_socket_digest(digest);
                }
            }
        };
    };
}

pub(super) use answers_as_inner;
