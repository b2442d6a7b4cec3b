import './installed.ts';

export { SMTPServer } from 'smtp-server';
