import './installed.ts';

export { sign, verify } from '@octokit/webhooks-methods';
