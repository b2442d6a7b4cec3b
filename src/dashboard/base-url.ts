import type { DashboardApp, DashboardServices } from './services.ts';

/** Where this process is reached from outside: what the operator says without a password in it, else what it listens on. */
export function baseUrlOf(app: Pick<DashboardApp, 'server'>, services: DashboardServices): string {
  return services.publicUrl?.replace(/\/\/[^/]*@/, '//') ?? listenerUrl(app, services);
}

/** Port 0 becomes the one that the socket was given; a wildcard address becomes a name that can be called. */
function listenerUrl(app: Pick<DashboardApp, 'server'>, { listener }: DashboardServices): string {
  const address = app.server.address();
  const port = typeof address === 'object' && address !== null ? address.port : listener.port;
  const host = listener.host === '0.0.0.0' || listener.host === '::' ? 'localhost' : listener.host;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
