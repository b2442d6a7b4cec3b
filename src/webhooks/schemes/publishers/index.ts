import type { PublisherSpec } from '../spec.ts';
import { adyen } from './adyen.ts';
import { amazonSns } from './amazon-sns.ts';
import { asana } from './asana.ts';
import { atlassian } from './atlassian.ts';
import { bitbucket } from './bitbucket.ts';
import { box } from './box.ts';
import { calendly } from './calendly.ts';
import { coinbaseCommerce } from './coinbase-commerce.ts';
import { discord } from './discord.ts';
import { docuSign } from './docusign.ts';
import { dropbox } from './dropbox.ts';
import { generic } from './generic.ts';
import { gitHub } from './github.ts';
import { gitHubLegacy } from './github-legacy.ts';
import { gitLab } from './gitlab.ts';
import { hubSpot } from './hubspot.ts';
import { intercom } from './intercom.ts';
import { line } from './line.ts';
import { linear } from './linear.ts';
import { mailgun } from './mailgun.ts';
import { meta } from './meta.ts';
import { microsoftTeams } from './microsoft-teams.ts';
import { paddle } from './paddle.ts';
import { pagerDuty } from './pagerduty.ts';
import { payPal } from './paypal.ts';
import { sendGrid } from './sendgrid.ts';
import { sentry } from './sentry.ts';
import { shopify } from './shopify.ts';
import { slack } from './slack.ts';
import { square } from './square.ts';
import { standardWebhooks } from './standard-webhooks.ts';
import { stripe } from './stripe.ts';
import { telegram } from './telegram.ts';
import { trello } from './trello.ts';
import { twilio } from './twilio.ts';
import { twitch } from './twitch.ts';
import { typeform } from './typeform.ts';
import { vercel } from './vercel.ts';
import { zendesk } from './zendesk.ts';
import { zoom } from './zoom.ts';

/** The built-in schemes. `Custom` is none of them: a trigger's own fields describe it. */
export const BUILT_IN_SCHEMES: readonly PublisherSpec[] = [
  gitHub,
  gitHubLegacy,
  bitbucket,
  stripe,
  slack,
  shopify,
  twilio,
  square,
  zoom,
  linear,
  dropbox,
  mailgun,
  microsoftTeams,
  atlassian,
  calendly,
  generic,
  standardWebhooks,
  meta,
  discord,
  twitch,
  trello,
  asana,
  zendesk,
  paddle,
  typeform,
  vercel,
  sentry,
  pagerDuty,
  line,
  coinbaseCommerce,
  intercom,
  hubSpot,
  docuSign,
  box,
  adyen,
  telegram,
  gitLab,
  sendGrid,
  amazonSns,
  payPal,
];
