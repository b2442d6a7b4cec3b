import type { FastifyRequest } from 'fastify';
import { isLoopbackHost } from '../config/settings.ts';
import { HttpError } from '../errors.ts';
import { READING_METHODS } from './actors.ts';
import type { DashboardServices } from './services.ts';

type GuardServices = Pick<DashboardServices, 'access' | 'listener' | 'publicUrl'>;

const PROXY_HEADER = new RegExp(
  [
    'forwarded(-.*)?',
    'x[-_](.*[-_])?forwarded([-_].*)?',
    'client-ip',
    'fly-.*',
    'x-vercel-.*',
    'x-amzn-.*',
    'x-proxyuser-ip',
    'x-host',
    'x-rewrite-url',
    'x-original-.*',
    'via',
    'cdn-loop',
    'cf-.*',
    'x-envoy-.*',
    'tailscale-.*',
    'x-real-ip',
    'x-client-ip',
    'x-cluster-client-ip',
    'true-client-ip',
    'fastly-client-ip',
    '(wl-)?proxy-client-ip',
    'x-azure-(clientip|socketip)',
    'x-appengine-user-ip',
  ]
    .map((name) => `^${name}$`)
    .join('|'),
);
const HOW_TO_OPEN = 'set SLUICE_DASHBOARD_TOKEN, or SLUICE_DASHBOARD_USER and SLUICE_DASHBOARD_PASSWORD';

/**
 * An `onRequest` hook against requests that a browser sends for another site's page.
 *
 * Without credentials a loopback listener trusts everyone on this machine. There are two ways around that: a page whose
 * host name resolves to 127.0.0.1 (DNS rebinding), and a proxy or tunnel on this machine that lets strangers in. With
 * credentials, a browser still sends a stored login along with another site's form. So requests that change something
 * must come from our own pages in either case.
 */
export function guardOrigin(services: GuardServices) {
  return async (request: FastifyRequest): Promise<void> => {
    if (services.access.kind !== 'credentials' && isLoopbackHost(services.listener.host)) {
      refuseForeignHost(request, services);
      if (services.access.kind === 'loopback') refuseForwarded(request);
    }
    if (!READING_METHODS.has(request.method)) refuseCrossSite(request, services);
  };
}

function refuseForeignHost(request: FastifyRequest, services: GuardServices): void {
  const host = request.headers.host ?? '';
  if (isLoopbackHost(withoutPort(host))) return;
  if (services.access.kind === 'open' && isSameHost(host, publicHost(services))) return;
  throw new HttpError(
    'host_not_allowed',
    `The dashboard has no credentials and answers only to localhost, 127.0.0.1 or [::1], not to the host ${shown(host)}; ` +
      `to use it under another name, ${HOW_TO_OPEN}`,
  );
}

function refuseForwarded(request: FastifyRequest): void {
  const sign = signOfProxy(request);
  if (sign === undefined) return;
  throw new HttpError(
    'proxy_not_allowed',
    `The dashboard has no credentials and this request came through a proxy (${sign}); to use it behind one, ${HOW_TO_OPEN}`,
  );
}

/** The sign of a proxy, tunnel or content network: browsers and command lines never send these. */
function signOfProxy(request: FastifyRequest): string | undefined {
  // nginx adds no header; before 1.29.7 it speaks HTTP/1.0 to its upstreams. `settingsWarnings` reports later ones.
  if (request.raw.httpVersion === '1.0') return 'it speaks HTTP/1.0';
  const header = Object.keys(request.headers).find((name) => PROXY_HEADER.test(name));
  return header === undefined ? undefined : `it carries ${header}`;
}

function refuseCrossSite(request: FastifyRequest, services: GuardServices): void {
  const site = request.headers['sec-fetch-site'];
  const { origin } = request.headers;
  const isOwnSite = site === undefined || site === 'same-origin' || site === 'none';
  if (isOwnSite && (origin === undefined || isOwnOrigin(origin, request, services))) return;
  throw new HttpError(
    'cross_site',
    "This changes something and was sent by another site's page; behind a proxy that changes the Host header set " +
      'SLUICE_PUBLIC_URL',
  );
}

function isOwnOrigin(origin: string, request: FastifyRequest, services: GuardServices): boolean {
  if (!URL.canParse(origin)) return false;
  const { host } = new URL(origin);
  return isSameHost(host, request.headers.host) || isSameHost(host, publicHost(services));
}

// The schemes can differ because a proxy in front may speak TLS; default ports are left out.
function isSameHost(host: string, other: string | undefined): boolean {
  const normalised = (name: string) => name.toLowerCase().replace(/:(80|443)$/, '');
  return other !== undefined && normalised(host) === normalised(other);
}

function publicHost({ publicUrl }: GuardServices): string | undefined {
  return publicUrl === undefined ? undefined : new URL(publicUrl).host;
}

function withoutPort(host: string): string {
  return host.replace(/:\d*$/, '').replace(/^\[(.*)\]$/, '$1');
}

function shown(host: string): string {
  return JSON.stringify(host.slice(0, 80));
}
