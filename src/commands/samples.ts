/** Something a publisher would really send, for trying a trigger out. */
export interface Sample {
  readonly body: Buffer;
  readonly contentType: string;
  /** What goes beside the headers of the signature. */
  readonly headers: Readonly<Record<string, string>>;
}

const GITHUB_PUSH = {
  ref: 'refs/heads/main',
  before: '6113728f27ae82c7b1a177c8d03f9e96e0adf246',
  after: '59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5',
  repository: { id: 186853002, name: 'hello-world', full_name: 'octocat/hello-world', private: false },
  pusher: { name: 'octocat', email: 'octocat@example.com' },
  commits: [{ id: '59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5', message: 'Update README', author: { name: 'octocat' } }],
};

const STRIPE_PAYMENT = {
  id: 'evt_1Pgc76DZ',
  object: 'event',
  type: 'payment_intent.succeeded',
  livemode: false,
  data: { object: { id: 'pi_3Pgc75', object: 'payment_intent', amount: 4200, currency: 'eur', status: 'succeeded' } },
};

const SLACK_MENTION = {
  type: 'event_callback',
  team_id: 'T061EG9R6',
  event_id: 'Ev9UQ52YNA',
  event: { type: 'app_mention', user: 'U061F7AUR', text: 'ship it', channel: 'C0LAN2Q65', ts: '1515449522.000016' },
};

const SHOPIFY_ORDER = { id: 820982911946154, name: '#9999', currency: 'USD', total_price: '403.00', line_items: [] };

const MAILGUN_EVENT = {
  'event-data': { event: 'opened', id: 'ase7i2zsRYeDXztHGENqRA', recipient: 'alice@example.com' },
};

const ANYTHING = { message: 'hello from sluice send' };

const json = (value: object, headers: Readonly<Record<string, string>> = {}): Sample => ({
  body: Buffer.from(JSON.stringify(value)),
  contentType: 'application/json',
  headers,
});

const SAMPLES: Readonly<Record<string, Sample>> = {
  GitHub: json(GITHUB_PUSH, { 'x-github-event': 'push' }),
  GitHubLegacy: json(GITHUB_PUSH, { 'x-github-event': 'push' }),
  Stripe: json(STRIPE_PAYMENT),
  Slack: json(SLACK_MENTION),
  Shopify: json(SHOPIFY_ORDER, {
    'x-shopify-topic': 'orders/create',
    'x-shopify-shop-domain': 'example.myshopify.com',
  }),
  Mailgun: json(MAILGUN_EVENT),
  Twilio: {
    body: Buffer.from('AccountSid=AC123&Body=Hello+there&From=%2B14155550100&MessageSid=SM123&To=%2B14155550199'),
    contentType: 'application/x-www-form-urlencoded',
    headers: {},
  },
};

export function sampleOf(schemeName: string | undefined): Sample {
  return SAMPLES[schemeName ?? ''] ?? json(ANYTHING);
}
