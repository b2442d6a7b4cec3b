import { type KeyObject, X509Certificate } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';
import type { Delivery } from '../../model/delivery.ts';
import { readPublicKey } from './keys.ts';
import type { CertificateSource, SignatureSpec } from './spec.ts';
import { bodyReader, headerOf } from './values.ts';

/** The public keys of publishers that sign with certificates. */
export interface Certificates {
  /** Rejects where the certificate cannot be had or cannot be believed; the URL must have passed `certificateUrlOf`. */
  keyFor(spec: SignatureSpec, url: string): Promise<KeyObject>;
}

interface CertificatesOptions {
  /** Yields what an https URL answers with 200, within bounds of size and time; follows no redirect. */
  readonly fetch: (url: string) => Promise<string>;
  readonly clock: Clock;
}

interface Known {
  readonly key: KeyObject;
  readonly validFrom: number;
  readonly validTo: number;
}

// A publisher has one certificate, and two while it is renewed; AWS has some for each region.
const MAX_CERTIFICATES = 100;
// Anyone who forges deliveries can name any URL of the right form. URLs that fail are cached separately, so that they
// do not evict needed certificates, and only a few are fetched at the same time.
const MAX_FAILURES = 1000;
const FAILURE_MS = 60_000;
const MAX_FETCHES = 4;
/** Of a file with the certificates that vouch for the first. */
const MAX_LENGTH = 65_536;

/** Something that the detail of a delivery may name. */
class CertificateError extends Error {
  readonly code: string;
  constructor(code: string) {
    super(code);
    this.name = 'CertificateError';
    this.code = code;
  }
}

/** Fetches each certificate once for all deliveries that wait for it, and keeps its key until it expires. */
export function createCertificates({ fetch, clock }: CertificatesOptions): Certificates {
  const known = new LRUCache<string, Known>({ max: MAX_CERTIFICATES });
  const failures = new LRUCache<string, { readonly until: number; readonly error: unknown }>({ max: MAX_FAILURES });
  const underWay = new Map<string, Promise<Known>>();

  async function load(spec: SignatureSpec, url: string): Promise<Known> {
    try {
      const certificate = readCertificate(spec, await fetch(url));
      refuseIfNotValid(certificate, clock.now());
      known.set(url, certificate);
      return certificate;
    } catch (error) {
      failures.set(url, { until: clock.monotonic() + FAILURE_MS, error });
      throw error;
    } finally {
      underWay.delete(url);
    }
  }

  return {
    async keyFor(spec, url) {
      const kept = known.get(url);
      if (kept !== undefined && isValid(kept, clock.now())) return kept.key;
      const failure = failures.get(url);
      if (failure !== undefined && clock.monotonic() < failure.until) throw failure.error;
      const waited = underWay.get(url);
      if (waited !== undefined) return (await waited).key;
      if (underWay.size >= MAX_FETCHES) throw new CertificateError('TOO_MANY_FETCHES');
      const loading = load(spec, url);
      underWay.set(url, loading);
      return (await loading).key;
    },
  };
}

/** The URL of the certificate that the delivery names, if it is one of the publisher's; undefined for any other. */
export function certificateUrlOf({ certificate }: SignatureSpec, { headers, body }: Delivery): string | undefined {
  if (certificate === undefined) return undefined;
  const { url } = certificate;
  const text = 'header' in url ? headerOf(headers, url.header) : bodyReader(headers, body)(url.field);
  return text !== undefined && isOfPublisher(certificate, text) ? text : undefined;
}

/** Whether the URL is exactly one of the publisher's: a lenient parser could read another spelling as another host. */
function isOfPublisher({ host, path }: CertificateSource, text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  const isWhole = (pattern: RegExp, part: string) => pattern.exec(part)?.[0] === part;
  return text === `https://${url.host}${url.pathname}` && isWhole(host, url.host) && isWhole(path, url.pathname);
}

/** The first of the file is the signer's own; others are those that vouch for it, and the host does that already. */
function readCertificate({ name, certificate }: SignatureSpec, pem: string): Known {
  const [first] =
    pem.length > MAX_LENGTH ? [] : (/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/.exec(pem) ?? []);
  if (first === undefined) throw new CertificateError('NOT_A_CERTIFICATE');
  const x509 = new X509Certificate(first);
  const [, commonName = ''] = /^CN=(.*)$/m.exec(x509.subject) ?? [];
  if (certificate?.commonName?.test(commonName) === false) throw new CertificateError('WRONG_SUBJECT');
  const pemOfKey = x509.publicKey.export({ type: 'spki', format: 'pem' }).toString();
  const { key } = readPublicKey('rsa', pemOfKey, { field: 'certificate', scheme: name });
  return { key, validFrom: Date.parse(x509.validFrom), validTo: Date.parse(x509.validTo) };
}

function isValid({ validFrom, validTo }: Known, now: number): boolean {
  return validFrom <= now && now < validTo;
}

function refuseIfNotValid(certificate: Known, now: number): void {
  if (!isValid(certificate, now)) throw new CertificateError('CERTIFICATE_NOT_VALID');
}
