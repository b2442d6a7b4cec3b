import './installed.ts';

export { Webhook } from 'standardwebhooks';
