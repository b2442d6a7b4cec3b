import { z } from 'zod';

/** How fast one host is called, and how many times at once. */
export interface HostLimits {
  readonly perSecond?: number | undefined;
  /** Requests under way at once, from 1. */
  readonly atOnce?: number | undefined;
}

/** An operator's limits for one host, or with `*` for all others. */
export interface HostEntry extends HostLimits {
  /** `*`, a host, a host with a port, or a scheme with host and port; in the form of URLs. */
  readonly host: string;
}

export const HOST_LIMIT_FORMS =
  'HOST=LIMIT, separated by commas: HOST is *, a host name or address, HOST:PORT or https://HOST; LIMIT is 10/s, 600/m, 10/s:4 (4 at once), :4 or unlimited';

const SECONDS = { s: 1, m: 60, h: 3600 } as const;
export const MOST_PER_SECOND = 100_000;
/** About one a day. Even for a million waiting steps, the last turn must be a valid date. */
export const LEAST_PER_SECOND = 0.00001;
const MOST_AT_ONCE = 10_000;

/** Entries such as `api.example.com=10/s:4`; a mistake is an issue that names the entry. */
export const hostEntryTexts = z
  .union([z.array(z.string()), z.string().transform((text) => (text.trim() === '' ? [] : text.split(',')))])
  .transform((texts) => texts.map((text) => text.trim()))
  .superRefine((texts, context) => {
    const hosts = new Set<string>();
    for (const text of texts) {
      const entry = parseEntry(text);
      const isTwice = typeof entry !== 'string' && hosts.has(entry.host);
      const problem = typeof entry === 'string' ? entry : isTwice ? 'the host is named twice' : undefined;
      const message = `the entry ${JSON.stringify(text)}: ${problem}`;
      if (problem !== undefined) context.addIssue({ code: 'custom', message });
      if (typeof entry !== 'string') hosts.add(entry.host);
    }
  });

/** The entries in texts that `hostEntryTexts` accepted. */
export function hostEntriesOf(texts: readonly string[]): HostEntry[] {
  return texts.map(parseEntry).filter((entry) => typeof entry !== 'string');
}

/** An entry, or its mistake. */
function parseEntry(text: string): HostEntry | string {
  const [, name, limit] = /^([^=]+)=([^=]+)$/.exec(text) ?? [];
  if (name === undefined || limit === undefined) return 'expected one = between host and limit';
  const host = name.trim() === '*' ? '*' : parseHost(name.trim());
  if (host === undefined) return `${JSON.stringify(name.trim())} is not a host`;
  const limits = parseLimits(limit.trim());
  return typeof limits === 'string' ? limits : { host, ...limits };
}

function parseLimits(text: string): HostLimits | string {
  if (text === 'unlimited') return {};
  const [, amount, unit, atOnceText] = /^(?:(\d+(?:\.\d+)?)\/([smh]))?(?::(\d{1,9}))?$/.exec(text) ?? [];
  if (amount === undefined && atOnceText === undefined) return `${JSON.stringify(text)} is not a limit`;
  const perSecond = amount === undefined ? undefined : Number(amount) / SECONDS[unit as keyof typeof SECONDS];
  if (perSecond !== undefined && !(perSecond >= LEAST_PER_SECOND && perSecond <= MOST_PER_SECOND)) {
    return `the rate must be from ${LEAST_PER_SECOND}/s to ${MOST_PER_SECOND}/s`;
  }
  const atOnce = atOnceText === undefined ? undefined : Number(atOnceText);
  if (atOnce !== undefined && !(atOnce >= 1 && atOnce <= MOST_AT_ONCE)) {
    return `the number at once must be from 1 to ${MOST_AT_ONCE}`;
  }
  return { perSecond, atOnce };
}

/** In the form of `originOf`, without a scheme or port unless given. */
function parseHost(text: string): string | undefined {
  const [, scheme, rest = '', port] = /^(https?:\/\/)?(\[[^\]]+\]|[^:/?#@\s*]+)(?::(\d{1,5}))?$/i.exec(text) ?? [];
  // Without a scheme, a port is kept even if it is a default one.
  if (!URL.canParse(`http://${rest}`) || Number(port ?? 1) < 1 || Number(port ?? 1) > 65_535) return undefined;
  const host = plainHost(new URL(`http://${rest}`).hostname);
  if (scheme !== undefined) return originOf(new URL(`${scheme}${host}${port === undefined ? '' : `:${port}`}`));
  return port === undefined ? host : `${host}:${Number(port)}`;
}

/** The host of a URL: scheme, host and port, in one spelling for all URLs. */
export function originOf({ protocol, hostname, port }: URL): string {
  return `${protocol}//${plainHost(hostname)}${port === '' ? '' : `:${port}`}`;
}

/** URLs keep a final dot, which names the same host, and IPv4 addresses written as IPv6. */
function plainHost(hostname: string): string {
  const [, high, low] = /^\[::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})\]$/.exec(hostname) ?? [];
  if (high === undefined || low === undefined) return hostname.replace(/\.+$/, '');
  const bytes = [high, low].flatMap((part) => [Number.parseInt(part, 16) >> 8, Number.parseInt(part, 16) & 255]);
  return bytes.join('.');
}

/** The limits in the entry that matches an origin most exactly: by scheme, port, host alone, or `*`. */
export function limitsOf(entries: readonly HostEntry[], origin: string): HostLimits {
  const { protocol, hostname, port } = new URL(origin);
  const named = [origin, `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`, hostname, '*'];
  for (const name of named) {
    const entry = entries.find(({ host }) => host === name);
    if (entry !== undefined) return entry;
  }
  return {};
}

/** A rate in the form of the setting. */
export function rateText(perSecond: number): string {
  const rounded = (value: number) => String(Math.round(value * 1000) / 1000);
  if (perSecond >= 1) return `${rounded(perSecond)}/s`;
  return perSecond * 60 >= 1 ? `${rounded(perSecond * 60)}/m` : `${rounded(perSecond * 3600)}/h`;
}
