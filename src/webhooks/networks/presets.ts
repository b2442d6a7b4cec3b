import { closestMatch } from 'leven';
import { DAY_MS } from '../../model/clock.ts';
import { GateConfigurationError } from '../gate.ts';

/** Addresses under one name, as their publisher stated them on one day. */
interface AddressPreset {
  readonly name: string;
  /** At least one. */
  readonly entries: readonly string[];
  /** The URL of the current list. */
  readonly source: string;
  /** The day on which the entries were known to be right, YYYY-MM-DD; null if they never change. */
  readonly asOf: string | null;
}

/** A publisher whose name is that of a preset, but without published addresses. */
interface UnpublishedAddresses {
  readonly name: string;
  /** What the publisher says about its addresses. */
  readonly because: string;
  readonly instead: string;
  readonly source: string;
  /** YYYY-MM-DD */
  readonly checkedOn: string;
}

// RFC 1918; RFC 1122, section 3.2.1.3; RFC 3927; RFC 4291, sections 2.5.3 and 2.5.6.
const OWN_NETWORK = [
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '::1/128',
  'fe80::/10',
];

export const UNPUBLISHED: readonly UnpublishedAddresses[] = [
  {
    name: 'slack',
    because: 'Slack publishes no addresses that its requests come from',
    instead: 'verify the signature: webhookSignatureScheme Slack',
    source: 'https://docs.slack.dev/authentication/verifying-requests-from-slack',
    checkedOn: '2026-11-21',
  },
  {
    name: 'shopify',
    because: 'Shopify publishes no addresses, because its webhooks have no fixed ones',
    instead: 'verify the signature: webhookSignatureScheme Shopify',
    source: 'https://shopify.dev/docs/apps/build/webhooks/verify-deliveries',
    checkedOn: '2026-11-21',
  },
  {
    name: 'twilio',
    because:
      'Twilio publishes no addresses that webhooks come from, except those of the Static Proxy of its paid editions',
    instead:
      'verify the signature: webhookSignatureScheme Twilio; with the Static Proxy write its addresses into webhookIpAllowList',
    source: 'https://www.twilio.com/docs/iam/twilio-editions/twilio-static-proxy',
    checkedOn: '2026-11-21',
  },
  {
    name: 'mailgun',
    because: 'Mailgun publishes no addresses that webhooks come from',
    instead:
      'verify the signature: webhookSignatureScheme Mailgun; a TLS proxy in front can also check the client certificate that Mailgun presents',
    source: 'https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks',
    checkedOn: '2026-11-21',
  },
];

// The addresses that all Atlassian cloud products send from; Bitbucket shares all of these with the others. Without
// 104.192.138.240/28: copies of the list had it until 2026-02, but not from 2026-05 on.
const ATLASSIAN_SHARED = [
  '13.52.5.96/28',
  '13.236.8.224/28',
  '18.136.214.96/28',
  '18.184.99.224/28',
  '18.234.32.224/28',
  '18.246.31.224/28',
  '52.215.192.224/28',
  '104.192.137.240/28',
  '104.192.140.240/28',
  '104.192.142.240/28',
  '104.192.143.240/28',
  '185.166.142.240/28',
  '185.166.143.240/28',
  '2401:1d80:3204:3::/64',
  '2401:1d80:3204:4::/63',
  '2401:1d80:3208:3::/64',
  '2401:1d80:3208:4::/63',
  '2401:1d80:3210:3::/64',
  '2401:1d80:3210:4::/63',
  '2401:1d80:3214:3::/64',
  '2401:1d80:3214:4::/63',
  '2401:1d80:321c:3::/64',
  '2401:1d80:321c:4::/63',
  '2401:1d80:3224:3::/64',
  '2401:1d80:3224:4::/63',
  '2406:da18:809:e04::/63',
  '2406:da18:809:e06::/64',
  '2406:da1c:1e0:a204::/63',
  '2406:da1c:1e0:a206::/64',
  '2600:1f14:824:304::/63',
  '2600:1f14:824:306::/64',
  '2600:1f18:2146:e304::/63',
  '2600:1f18:2146:e306::/64',
  '2600:1f1c:cc5:2304::/63',
  '2a05:d014:f99:dd04::/63',
  '2a05:d014:f99:dd06::/64',
  '2a05:d018:34d:5804::/63',
  '2a05:d018:34d:5806::/64',
];

/**
 * Snapshots, each with its day. An entry is listed only if its publisher holds all of it: blocks of a cloud provider,
 * of a content network, or of machines on which customers run their own code would admit strangers.
 */
export const PRESETS: readonly AddressPreset[] = [
  {
    name: 'stripe',
    entries: [
      '3.18.12.63',
      '3.69.109.8',
      '3.120.168.93',
      '3.130.192.231',
      '13.235.14.237',
      '13.235.122.149',
      '18.211.135.69',
      '35.154.171.200',
      '35.157.207.129',
      '52.15.183.38',
      '54.88.130.119',
      '54.88.130.237',
      '54.187.174.169',
      '54.187.205.235',
      '54.187.216.72',
    ],
    source: 'https://stripe.com/files/ips/ips_webhooks.json',
    asOf: '2026-09-04',
  },
  {
    // The first two send from production, the others from the sandbox.
    name: 'square',
    entries: ['54.245.1.154', '34.202.99.168', '54.212.177.79', '107.20.218.8'],
    source: 'https://developer.squareup.com/docs/webhooks/overview',
    asOf: '2026-09-18',
  },
  {
    // One list for all of Zoom, including meetings and phones: Zoom states none for webhooks alone. Its content network
    // (52.84.151.0/24, 2600:9000:2600::/48) is left out, because it fetches for other customers too.
    name: 'zoom',
    entries: [
      '3.7.35.0/25',
      '3.235.82.0/23',
      '3.235.96.0/23',
      '8.5.128.0/24',
      '15.220.80.0/24',
      '15.220.81.0/25',
      '18.254.23.128/25',
      '18.254.61.0/25',
      '20.203.158.80/28',
      '20.203.190.192/26',
      '52.61.100.128/25',
      '64.211.144.0/24',
      '64.224.32.0/19',
      '69.174.108.0/22',
      '101.36.167.0/24',
      '101.36.170.0/23',
      '103.122.166.0/23',
      '111.33.115.0/25',
      '111.33.181.0/25',
      '115.110.154.192/26',
      '115.114.56.192/26',
      '115.114.115.0/26',
      '115.114.131.0/26',
      '115.117.119.96/27',
      '121.244.146.0/27',
      '121.244.203.192/27',
      '134.224.0.0/16',
      '137.66.128.0/17',
      '144.195.0.0/16',
      '147.124.96.0/19',
      '149.137.0.0/17',
      '156.45.0.0/17',
      '159.124.0.0/16',
      '160.1.56.128/25',
      '161.199.136.0/22',
      '162.12.232.0/22',
      '162.255.36.0/22',
      '166.108.64.0/18',
      '168.140.0.0/17',
      '170.114.0.0/16',
      '173.231.80.0/20',
      '192.204.12.0/22',
      '198.251.128.0/17',
      '203.200.219.128/27',
      '204.80.104.0/21',
      '206.247.0.0/16',
      '221.122.63.0/24',
      '221.122.64.0/24',
      '221.122.88.64/27',
      '221.122.88.128/25',
      '221.122.89.128/25',
      '221.123.139.192/27',
      '2407:30c0:180::/47',
    ],
    source: 'https://assets.zoom.us/docs/ipranges/Zoom.txt',
    asOf: '2026-07-02',
  },
  {
    name: 'github',
    entries: [
      '192.30.252.0/22',
      '185.199.108.0/22',
      '140.82.112.0/20',
      '143.55.64.0/20',
      '9.234.98.160/28',
      '9.234.98.176/28',
      '9.234.106.48/28',
      '2a0a:a440::/29',
      '2606:50c0::/32',
    ],
    source: 'https://api.github.com/meta',
    asOf: '2026-10-29',
  },
  {
    name: 'atlassian',
    entries: [
      ...ATLASSIAN_SHARED,
      '13.200.41.224/28',
      '16.63.53.224/28',
      '43.202.69.96/28',
      '104.192.136.240/28',
      '185.166.140.112/28',
      '185.166.141.112/28',
      '2401:1d80:3200::/64',
      '2401:1d80:3200:2::/64',
      '2401:1d80:3200:5::/64',
      '2401:1d80:320c::/63',
      '2401:1d80:320c:2::/64',
      '2401:1d80:3218::/64',
      '2401:1d80:3218:2::/64',
      '2401:1d80:3218:5::/64',
      '2401:1d80:3228::/63',
      '2401:1d80:3228:4::/64',
      '2401:1d80:322c::/63',
      '2401:1d80:322c:4::/64',
      '2401:1d80:3230::/64',
      '2401:1d80:3230:2::/64',
      '2401:1d80:3230:4::/64',
    ],
    source: 'https://ip-ranges.atlassian.com/',
    asOf: '2026-07-02',
  },
  // Without the single addresses of Bitbucket Pipelines, where any customer runs its own code.
  { name: 'bitbucket', entries: ATLASSIAN_SHARED, source: 'https://ip-ranges.atlassian.com/', asOf: '2026-07-02' },
  ...['local', 'localhost', 'private'].map((name) => ({
    name,
    entries: OWN_NETWORK,
    source: 'https://www.rfc-editor.org/rfc/rfc1918',
    asOf: null,
  })),
];

/** A snapshot older than this should be compared with its source. */
const FRESH_DAYS = 90;

const byName = new Map(PRESETS.map((preset) => [preset.name, preset]));
const unpublished = new Map(UNPUBLISHED.map((publisher) => [publisher.name, publisher]));

/**
 * Throws `GateConfigurationError` for an unknown name, and for a publisher without published addresses: an empty list
 * would either shut everybody out or count as no list. Names are matched in any case.
 */
export function findPreset(name: string, field: string): AddressPreset {
  const wanted = name.trim().toLowerCase();
  const preset = byName.get(wanted);
  if (preset !== undefined) return preset;
  const lacking = unpublished.get(wanted);
  if (lacking !== undefined) {
    const { because, instead, source, checkedOn } = lacking;
    const message = `"${wanted}" has no addresses to allow: ${because} (checked on ${checkedOn}: ${source}). Instead, ${instead}`;
    throw new GateConfigurationError(field, message);
  }
  const names = [...byName.keys()];
  const nearest = closestMatch(wanted, [...names, ...unpublished.keys()], {
    maxDistance: Math.floor(wanted.length / 3),
  });
  const guess = nearest === undefined ? '.' : `; did you mean "${nearest}"?`;
  throw new GateConfigurationError(
    field,
    `"${name}" is not an address preset${guess} Known presets are ${names.join(', ')}`,
  );
}

/** What an operator should hear about a preset when a manifest loads; undefined if all is well. */
export function presetConcern(preset: AddressPreset, now: number): string | undefined {
  if (preset.asOf === null) return undefined;
  const days = Math.floor((now - Date.parse(preset.asOf)) / DAY_MS);
  if (days <= FRESH_DAYS) return undefined;
  return `the addresses of preset "${preset.name}" are those of ${preset.asOf}, ${days} days ago; compare them with ${preset.source}`;
}
