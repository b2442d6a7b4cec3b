import { createHash, createHmac, sign as signWith } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { PublisherRow } from '../../src/webhooks/schemes/publishers/row.ts';
import { builtIn, keyOf } from '../webhooks/schemes/fixtures.ts';

/**
 * Signs for the publisher of a row, using only its texts: a second implementation, independent of the service's parser,
 * layout and signer. Undefined for a row with parts that have options.
 */
export function signByRow(row: PublisherRow, changes: Changes = {}): SignedByRow | undefined {
  const { signs = '{body}', form = formOf(row), algorithm = 'sha256', encoding = 'hexLower', unit = 'seconds' } = row;
  const [header] = [row.header].flat();
  if (typeof signs !== 'string' || typeof header !== 'string' || header.startsWith('{') || row.others?.certificate) {
    return undefined;
  }
  const seconds = changes.seconds ?? 1_700_000_000;
  const time = { seconds: `${seconds}`, milliseconds: `${seconds}000`, detect: `${seconds}` }[unit as 'seconds'];
  const date = new Date(seconds * 1000);
  const text = time ?? (unit === 'httpDate' ? date.toUTCString() : date.toISOString().replace('.000', ''));
  const url = 'https://hooks.example.com/in?q=1';
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (typeof row.timestamp === 'string' && !row.timestamp.startsWith('{')) headers[row.timestamp.toLowerCase()] = text;
  if (row.id !== undefined) headers[row.id.toLowerCase()] = 'id-1';
  const body = bodyOf(row, text, unit);
  const parts: Record<string, string> = {
    body,
    timestamp: text,
    id: 'id-1',
    method: 'POST',
    url,
    path: '/in',
    target: '/in?q=1',
    host: 'hooks.example.com',
    form: '',
    'sha256:body': createHash('sha256').update(body).digest('hex'),
    'sha256:body:base64': createHash('sha256').update(body).digest('base64'),
    'crc32:body': String(crc32(body)),
  };
  let signed = '';
  for (const [, open, name, close, literal] of signs.matchAll(/(\{\{)|\{([^{}]+)\}|(\}\})|([^{}]+)/g)) {
    const at = /^(header|query):(.+)$/.exec(name ?? '');
    if (at?.[1] === 'header') headers[at[2]?.toLowerCase() ?? ''] ??= 'h-1';
    const value = at === null ? parts[name ?? ''] : at[1] === 'header' ? headers[at[2]?.toLowerCase() ?? ''] : '1';
    signed += open ? '{' : close ? '}' : (literal ?? value ?? `?${name}?`);
  }
  if (signed.includes('?field:') || signed.includes('?key?') || signs.includes('{form}')) return undefined;
  const query = /\{query:(.+?)\}/.exec(signs)?.[1];
  const line =
    algorithm === 'token' ? keyBytes(row, changes).toString() : digestOf(row, { algorithm, encoding, signed, changes });
  headers[header.toLowerCase()] = form
    .replaceAll('{signature}', line)
    .replaceAll('{timestamp}', text)
    .replaceAll('{*}', 'x')
    .replace(/[ ,;]\.\.\.$/, '');
  return {
    headers,
    body,
    url: query === undefined ? url : `https://hooks.example.com/in?${encodeURIComponent(query)}=1`,
    signed,
  };
}

/** As in draft-cavage-http-signatures, if the row says so. */
function formOf({ others }: PublisherRow): string {
  if (others?.multiValue?.isQuoted !== true) return '{signature}';
  return 'keyid="k", algorithm="ed25519", signature="{signature}", headers="(request-target) host date digest"';
}

export interface SignedByRow {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly url: string;
  readonly signed: string;
}

interface Changes {
  readonly seconds?: number;
  /** Which key signs. */
  readonly key?: number;
}

function bodyOf({ timestamp, sample = '{"message":"hello"}' }: PublisherRow, text: string, unit: string): string {
  const path = typeof timestamp === 'string' ? /^\{field:(.+)\}$/.exec(timestamp)?.[1]?.split('.') : undefined;
  if (path === undefined) return sample;
  const json = JSON.parse(sample) as Record<string, unknown>;
  let at = json;
  for (const name of path.slice(0, -1)) {
    at[name] ??= {};
    at = at[name] as Record<string, unknown>;
  }
  at[path.at(-1) ?? ''] = unit.startsWith('rfc') ? text : Number(text);
  return JSON.stringify(json);
}

function keyBytes(row: PublisherRow, { key = 7 }: Changes): Buffer {
  const text = keyOf(builtIn(row.name), key, 'privateKey');
  if (row.keyEncoding === 'hex') return Buffer.from(text, 'hex');
  if (row.keyEncoding === 'base64') return Buffer.from(text, 'base64');
  if (row.others?.isUserAndPassword === true) return Buffer.from(Buffer.from(text).toString('base64'));
  return row.keyEncoding === 'whsec' ? Buffer.from(text.replace('whsec_', ''), 'base64') : Buffer.from(text);
}

function digestOf(
  row: PublisherRow,
  { algorithm, encoding, signed, changes }: { algorithm: string; encoding: string; signed: string; changes: Changes },
): string {
  const text = keyOf(builtIn(row.name), changes.key ?? 7, 'privateKey');
  const pkcs8 = (der: Buffer) => ({ key: der, format: 'der', type: 'pkcs8' }) as const;
  const seed = () => Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), keyBytes(row, changes)]);
  const bytes =
    algorithm === 'ed25519'
      ? signWith(null, Buffer.from(signed), pkcs8(seed()))
      : algorithm === 'ecdsaP256' || algorithm === 'rsaSha256'
        ? signWith('sha256', Buffer.from(signed), pkcs8(Buffer.from(text, 'base64')))
        : createHmac(algorithm, keyBytes(row, changes)).update(signed).digest();
  if (encoding === 'base64') return bytes.toString('base64');
  return encoding === 'base64Url' ? bytes.toString('base64url') : bytes.toString('hex');
}
