import { standIn } from '../stand-in.mjs';

// It is also what Slack shows: the address in command.txt is here.
standIn('deploys', process.env.DEPLOY_URL, ({ body }) => ({ version: `${body.target ?? 'none'}-42` }));
